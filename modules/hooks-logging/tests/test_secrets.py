"""Tests of the log's own funnel: no secret is in its bytes, with or without hooks-redaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator, MockTool
from end_to_end.secret_examples import EXAMPLES, hidden_part

Open = Callable[..., Awaitable[Any]]

every_kind = pytest.mark.parametrize("kind", EXAMPLES)


@pytest.mark.attack("K1")
@every_kind
async def test_no_kind_of_secret_is_in_the_bytes_of_the_log(open_log: Open, kind: str) -> None:
    harness = await open_log()
    example = EXAMPLES[kind]
    places: dict[str, Any] = {
        "tool:post": {"result": {"success": True, "output": f"found\n{example}\n; end"}},
        "tool:error": {"error": {"type": "E", "msg": f"refused: {example}"}},
        "provider:retry": {"url": f"https://example.org/?q={example}", example: 1},
        "artifact:read": {"nested": [{"deep": [example]}]},
        "prompt:submit": {"prompt": f"use {example} please"},
    }

    for event, data in places.items():
        await harness.hooks.emit(event, data)
    await harness.close()

    assert len(harness.records()) == len(places)
    assert _in_json(hidden_part(kind)) not in harness.path.read_bytes()


@pytest.mark.attack("K1")
@every_kind
async def test_no_kind_of_secret_survives_in_two_pieces(open_log: Open, kind: str) -> None:
    coordinator = MockCoordinator()
    streamed = ["llm:stream_block_delta", "llm:stream_block_end"]
    coordinator.register_contributor("observability.events", "provider", streamed.copy)
    harness = await open_log(coordinator, exclude=[])
    example = EXAMPLES[kind]
    identity = {"request_id": "r", "block_index": 0}
    middle = len(example) - len(hidden_part(kind)) // 2

    for text in (f"it is {example[:middle]}", f"{example[middle:]}; done"):
        await harness.hooks.emit("llm:stream_block_delta", {**identity, "text": text})
    await harness.hooks.emit("llm:stream_block_end", identity)
    await harness.close()

    texts = "".join(data["text"] for data in harness.told("llm:stream_block_delta"))
    assert hidden_part(kind) not in texts
    assert texts.startswith("it is ")
    assert texts.endswith(" done")


@pytest.mark.attack("K1")
async def test_the_sessions_own_keys_are_not_in_the_log(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENDOR_API_KEY", "own key, odd/1")
    coordinator = MockCoordinator()
    coordinator._config = {"providers": [{"config": {"api_key": "plan-value-77"}}]}
    harness = await open_log(coordinator)
    coordinator.register_capability("secrets.known", lambda: ["app-value-88"])
    await harness.hooks.emit("execution:start", {})

    for text in ("own key, odd/1", "own%20key%2C%20odd%2F1", "plan-value-77", "app-value-88"):
        await harness.hooks.emit("tool:error", {"error": {"msg": f"bad: {text}."}})
    await harness.close()

    log = harness.path.read_bytes()
    assert not any(each in log for each in (b"odd", b"plan-value-77", b"app-value-88"))
    assert log.count(b"[REDACTED:VENDOR_API_KEY]") == 2


@pytest.mark.attack("K1")
@pytest.mark.parametrize(
    "hooks", [["hooks-logging"], ["hooks-logging", "hooks-redaction"]], ids=len
)
async def test_a_whole_turn_leaves_no_secret_in_the_log(tmp_path: Path, hooks: list[str]) -> None:
    key = EXAMPLES["anthropic-key"]
    call: dict[str, Any] = {"tool_calls": [{"name": "look", "arguments": {}}]}
    script: dict[str, Any] = {"script": [call, {"text": f"It is {key}."}], "stream": True}
    log: dict[str, Any] = {"path": f"{tmp_path}/{{session_id}}.jsonl", "exclude": []}
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": script}],
        "hooks": [
            {"module": each, "config": log if each == "hooks-logging" else {}} for each in hooks
        ],
    }

    async with AmplifierSession(plan, session_id="s") as session:
        _ = session.coordinator.mount("tools", MockTool("look", f"the key is {key}"))
        await session.execute(f"my key is {key}, look")

    written = (tmp_path / "s.jsonl").read_bytes()
    assert b"llm:stream_block_delta" in written
    assert written.count(b"[REDACTED:anthropic-key]") > 5
    assert hidden_part("anthropic-key").encode() not in written


@pytest.mark.attack("K1")
async def test_a_cut_never_leaves_half_a_secret(open_log: Open) -> None:
    harness = await open_log(max_value_chars=100)
    key = "ghp_" + "a1B2" * 9

    for before in range(60, 110):
        await harness.hooks.emit("tool:post", {"result": "-" * before + key + " " + "x" * 50_000})
    await harness.close()

    assert b"ghp_a1" not in harness.path.read_bytes()


@pytest.mark.attack("K1")
async def test_an_event_that_cannot_be_searched_is_withheld(open_log: Open) -> None:
    harness = await open_log()
    # A value that is no text cannot be searched for.
    harness.log.watch._scrubbers[0].known = {7: "X"}

    await harness.hooks.emit("tool:post", {"result": "private"})
    await harness.close()

    assert harness.told("tool:post") == [{"withheld": "redaction failed: TypeError"}]
    assert b"private" not in harness.path.read_bytes()


def _in_json(text: str) -> bytes:
    return text.replace("\n", "\\n").replace('"', '\\"').encode()
