"""What the fault suites have in common: rules, watching a call, and peers nobody wants to meet."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import amplifier_conformance
from amplifier_conformance import RECOMMENDED, RULES, RecommendationWarning
from amplifier_conformance.peers import hurried, silent_peer
from amplifier_conformance.rules import require
from amplifier_conformance.watch import LARGE, Outcome, outcome_at_large, outcome_of
from contract.requirements import requirement

pytest_plugins = ["pytester"]

# One that ran on is cancelled once more when its loop is closed, and ends then.
RUNS_ON = """
import asyncio
from amplifier_core import ToolResult
class Tool:
    name, description, input_schema = "planted", "A planted tool.", {}
    async def execute(self, input):
        end = asyncio.get_running_loop().time() + 0.6
        while input.get("slow") and asyncio.get_running_loop().time() < end:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass
        return ToolResult()
async def mount(coordinator, config):
    await coordinator.mount("tools", Tool())
"""
INHERITS = """
from amplifier_conformance import ToolFaultTests
class TestFaults(ToolFaultTests):
    slow_input = {"slow": True}
    start_seconds = 0.05
    cancel_seconds = 0.1
"""


# --- rules ----------------------------------------------------------------------------------------


@requirement("VALID-20")
def test_the_rules_are_sentences_and_the_recommended_ones_are_among_them() -> None:
    assert set(RULES) >= RECOMMENDED
    for rule, sentence in RULES.items():
        assert re.fullmatch(r"(provider|tool|hook|loop|context)\.[a-z_]+", rule)
        assert re.fullmatch(r"[^A-Z].*[^.]", sentence), rule
        assert " must " in sentence, rule


def test_a_broken_rule_is_named_first() -> None:
    with pytest.raises(AssertionError) as raised:
        require("tool.cancel", False, "it ran on")

    assert str(raised.value) == (
        "Rule tool.cancel: a cancelled call must end with CancelledError within 2 s; it ran on."
    )


def test_a_recommended_rule_warns() -> None:
    with pytest.warns(RecommendationWarning, match=r"^Rule tool\.no_dict \(recommended\): "):
        assert not require("tool.no_dict", False, "it raised")


def test_a_kept_rule_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert require("tool.cancel", True, "")
        assert require("tool.no_dict", True, "")


@requirement("VALID-20")
@pytest.mark.parametrize("arguments", [(), ("-p", "no:asyncio")])
def test_the_report_of_a_failing_module_says_which_rule_it_breaks(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    package = pytester.path / "amplifier_module_tool_planted"
    package.mkdir()
    (package / "__init__.py").write_text(RUNS_ON, encoding="utf-8")
    pytester.makepyfile(test_planted=INHERITS)

    result = pytester.runpytest_inprocess(*arguments, "--strict-markers", "-W", "default")

    result.assert_outcomes(passed=5, failed=2)
    result.stdout.fnmatch_lines(
        [
            "E *Rule tool.cancel: a cancelled call must end with CancelledError*; it ran on.",
            "E *Rule tool.slow_peer: *; it ran on.",
            "*RecommendationWarning: Rule tool.no_dict (recommended)*",
        ]
    )


def test_the_example_in_the_documentation_runs() -> None:
    documentation = amplifier_conformance.__doc__ or ""
    example = documentation.partition("\n\n")[2].partition("\n\nA failure")[0]
    imported, _, defined = example.strip().partition("\n\n")
    namespace: dict[str, Any] = {}
    exec(f"{imported}\n{defined.replace('    class', 'class')}", namespace)

    assert namespace["TestFaults"].slow_input == {"url": "https://example.test/"}


# --- watching ------------------------------------------------------------------------------------


async def test_an_outcome_reads_like_the_end_of_a_sentence() -> None:
    async def value() -> int:
        return 7

    async def error() -> int:
        raise ValueError("x" * 1_000)

    assert str(await outcome_of(value(), 1)) == "it returned int"
    shown = str(await outcome_of(error(), 1))
    assert shown.startswith("it raised ValueError: xxx")
    assert len(shown) < 600
    assert str(await outcome_of(asyncio.sleep(10), 0.01)) == "it ran on"


async def test_a_call_that_ignores_every_cancellation_does_not_stop_the_watcher() -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(120):
        assert not (await outcome_of(stubborn(), 0.01)).ended
    released.set()


async def test_the_large_size_is_reached_in_steps() -> None:
    sizes: list[int] = []

    async def call(size: int) -> int:
        sizes.append(size)
        return size

    outcome = await outcome_at_large(call, 1)

    assert outcome.value == LARGE
    assert sizes == [LARGE // 10_000, LARGE // 1_000, LARGE // 100, LARGE // 10, LARGE]


async def test_a_call_that_hangs_on_a_small_size_is_not_tried_with_a_larger_one() -> None:
    sizes: list[int] = []

    async def call(size: int) -> None:
        sizes.append(size)
        await asyncio.Event().wait()

    assert str(await outcome_at_large(call, 0.01)) == "it ran on"
    assert len(sizes) == 1


def test_what_took_too_long_is_shown_with_its_size() -> None:
    outcome = Outcome(ended=False, seconds=1.5, size=5_000)

    assert str(outcome) == "it took 1.5 s for 5,000 characters, and more for more"


# --- peers ---------------------------------------------------------------------------------------


async def test_the_silent_peer_accepts_everything_and_says_nothing() -> None:
    async with silent_peer():
        reader, writer = await asyncio.open_connection("vendor.test", 443)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await reader.read(1)
        writer.close()
        with socket.socket() as plain:
            plain.setblocking(False)
            assert plain.connect_ex(("192.0.2.1", 80)) in (0, 115)

    assert "connect" not in vars(socket.socket)


async def test_the_silent_peer_has_no_ipv6_address_and_leaves_local_sockets_alone(
    tmp_path: Path,
) -> None:
    if sys.platform == "win32":
        pytest.skip("Python has no local sockets on Windows")
    path = str(tmp_path / "local")
    async with silent_peer():
        with socket.socket(socket.AF_INET6) as modern, pytest.raises(OSError, match="IPv6"):
            modern.connect(("2001:db8::1", 80))
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(path)
            server.listen()
            client.connect(path)


async def test_waiting_is_short_when_hurried() -> None:
    async with asyncio.timeout(120):
        with hurried():
            assert await asyncio.sleep(3_600, "slept") == "slept"
