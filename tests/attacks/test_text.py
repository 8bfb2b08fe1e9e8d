"""Text from outside is never printed raw: not by a listing, an error, an answer or a module."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attacks.hostile import EVIL, acting
from attacks.machine import Machine, write
from attacks.refusing_server import KEY, OTHER_KEY, RefusingServer
from end_to_end.model_server import ModelServer, Said

# What a file name can carry of it: no slash.
NAME = "a" + EVIL.replace("/", "|") + ".md"
FORGED = "z\n  settings.yaml  harmless"


def hostile_project(machine: Machine) -> None:
    """A folder of an attacker: names, addresses and bundles with escape codes in them."""
    folder = machine.project / ".amplifier"
    write(folder / NAME, "x")
    write(folder / FORGED, "x")
    address = f"http://evil{EVIL}.example/"
    provider = {"module": "provider-chat-completions", "config": {"base_url": address}}
    machine.project_settings({"providers": [provider], "bundle": {"added": {EVIL: "./b.md"}}})


def refuse(machine: Machine, server: RefusingServer) -> None:
    """Have every model call refused with the keys in the answer."""
    machine.environment |= {"OPENAI_API_KEY": KEY, "CORP_TOKEN": OTHER_KEY}
    config = {
        "base_url": server.url,
        "api_key": "${OPENAI_API_KEY}",
        "default_model": "x",
        "context_window": 200_000,
    }
    machine.user_settings(
        {"providers": [{"module": "provider-chat-completions", "config": config}]}
    )


def printed(machine: Machine, *arguments: str, cwd: Path | None = None) -> str:
    """Everything that a command prints."""
    result = machine.amplifier(*arguments, cwd=cwd)
    return result.stdout + result.stderr


@pytest.mark.attack("review H4")
def test_the_files_and_addresses_to_be_trusted_are_shown_with_nothing_that_acts(
    machine: Machine,
) -> None:
    hostile_project(machine)

    shown = printed(machine, "trust", "show")

    assert acting(shown) == []
    assert "\\u001b]52;c;" in shown
    assert "\\u202egnp.exe" in shown


@pytest.mark.attack("review H4")
def test_a_file_name_cannot_write_a_line_of_its_own_into_the_list_to_be_trusted(
    machine: Machine,
) -> None:
    hostile_project(machine)

    lines = printed(machine, "trust", "show").splitlines()

    assert not [line for line in lines if line.startswith("  settings.yaml  harmless")]


@pytest.mark.slow
@pytest.mark.attack("review H4")
@pytest.mark.parametrize("is_trusted", [False, True], ids=["untrusted", "trusted"])
def test_no_listing_and_no_error_prints_text_of_a_folder_raw(
    machine: Machine, is_trusted: bool
) -> None:
    hostile_project(machine)
    broken = machine.write("b.yaml", f"bundle: {{name: {json.dumps(EVIL)}, version: [}}")
    if is_trusted:
        machine.trust()
    commands = [
        ("trust", "show"),
        ("run", "-q", "hi"),
        ("doctor",),
        ("doctor", "--json"),
        ("bundle", "list"),
        ("bundle", "show"),
        ("bundle", "validate"),
        ("bundle", "show", f"x{EVIL}"),
        ("bundle", "show", str(broken)),
        ("session", "show", EVIL),
        ("tool", "list"),
        ("module", "show", f"./{NAME}"),
        ("--" + EVIL,),
    ]

    found = {" ".join(command): acting(printed(machine, *command)) for command in commands}
    assert {command: each for command, each in found.items() if each} == {}


@pytest.mark.slow
@pytest.mark.attack("review H4")
def test_what_a_session_was_about_is_listed_with_nothing_that_acts(machine: Machine) -> None:
    calls = [("bash" + EVIL, {"command": EVIL}), ("read_file", {"file_path": EVIL})]
    with ModelServer([Said([EVIL], calls), Said([EVIL])]) as server:
        machine.use(server)
        asked = printed(machine, "run", f"title {EVIL}")
    looks = [
        ("session", "list"),
        ("session", "list", "--json"),
        ("session", "show", "last"),
        ("session", "show", "last", "--full"),
        ("session", "show", "last", "--json"),
        ("session", "export", "last"),
        ("session", "export", "last", "--as", "json"),
        ("explain", "last", "--full"),
        ("explain", "last", "--json"),
        ("top", "last"),
        ("trace", "last"),
    ]

    found = {" ".join(look): acting(printed(machine, *look)) for look in looks}
    assert {look: each for look, each in found.items() if each} == {}
    assert acting(asked) == []


@pytest.mark.attack("review L9")
def test_an_answer_in_a_pipe_has_nothing_in_it_that_acts(machine: Machine) -> None:
    with ModelServer([Said([EVIL])]) as server:
        machine.use(server)
        result = machine.amplifier("run", "-q", "hi")

    assert acting(result.stdout) == []
    assert result.stdout.startswith("A\\u001b]52;c;")


@pytest.mark.slow
@pytest.mark.attack("review L9")
def test_an_answer_that_comes_letter_by_letter_has_nothing_in_it_that_acts(
    machine: Machine,
) -> None:
    with ModelServer([Said([*EVIL])]) as server:
        machine.use(server)
        result = machine.amplifier("run", "-q", "hi")

    assert acting(result.stdout) == []


@pytest.mark.attack("review L9")
def test_json_has_nothing_in_it_that_acts_and_loses_nothing(machine: Machine) -> None:
    with ModelServer([Said([EVIL])]) as server:
        machine.use(server)
        result = machine.amplifier("run", "--json", "hi")

    assert acting(result.stdout) == []
    assert json.loads(result.stdout)["answer"] == EVIL


@pytest.mark.slow
@pytest.mark.attack("review L9")
def test_what_a_module_prints_has_nothing_in_it_that_acts(machine: Machine) -> None:
    """Modules run in this process: their `print`, their loggers and their tracebacks too."""
    code = f"""
import logging, sys
from amplifier_core.models import HookResult
async def mount(coordinator, config=None):
    print({EVIL!r})
    sys.stderr.write({EVIL!r})
    logging.getLogger("x").warning({EVIL!r})
    async def fail(event, data):
        raise RuntimeError({EVIL!r})
    coordinator.hooks.register("prompt:submit", fail)
    coordinator.hooks.register("tool:pre", fail)
"""
    folder = machine.project / "hooks-loud"
    write(folder / "amplifier_module_hooks_loud" / "__init__.py", code)
    points = '[project.entry-points."amplifier.modules"]'
    entry = 'hooks-loud = "amplifier_module_hooks_loud:mount"'
    about = f'[project]\nname = "x"\nversion = "1"\n{points}\n{entry}\n'
    write(folder / "pyproject.toml", about)
    with ModelServer([Said(["done"])]) as server:
        machine.use(server)
        shown = printed(machine, "run", "--module", str(folder), "hi")

    assert "OWNED" in shown
    assert acting(shown) == []


@pytest.mark.attack("review L2")
@pytest.mark.parametrize(
    "arguments", [("run", "hi"), ("run", "--json", "hi")], ids=["text", "json"]
)
def test_keys_that_a_provider_repeats_in_its_error_are_not_printed(
    machine: Machine, arguments: tuple[str, ...]
) -> None:
    with RefusingServer() as server:
        refuse(machine, server)
        shown = printed(machine, *arguments)

    assert "401" in shown or "refused" in shown
    assert [each for each in (KEY, OTHER_KEY) if each in shown] == []


@pytest.mark.slow
@pytest.mark.attack("review L2")
def test_keys_in_a_providers_error_are_neither_recorded_nor_shown_by_any_look(
    machine: Machine,
) -> None:
    with RefusingServer() as server:
        refuse(machine, server)
        shown = printed(machine, "run", "hi") + printed(machine, "provider", "test")
        shown += printed(machine, "session", "show", "last", "--json")

    kept = [path.read_text("utf-8", "replace") for path in machine.home.rglob("*.jsonl")]
    assert kept
    assert [each for each in (KEY, OTHER_KEY) if each in shown or each in "".join(kept)] == []
