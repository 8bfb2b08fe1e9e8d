"""What is written has no secrets; what vendors want back is written as it came."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_kit.secrets.patterns import PATTERNS
from amplifier_module_contexts.context_persistent import PersistentContextManager, mount
from end_to_end.secret_examples import EXAMPLES, hidden_part

Open = Callable[..., Awaitable[PersistentContextManager]]

KNOWN = "canary-7Zt4bX9wLm2Kd8"
FORMED = EXAMPLES["github-token"]
NOTHING: dict[str, Any] = {}
# By chance, it looks to patterns as if it were full of secrets.
OPAQUE = "/".join(EXAMPLES[kind] for kind in ("aws-key-id", "github-token", "google-key", "jwt"))


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", KNOWN)


def written(path: Path) -> str:
    """Return everything that lies beside the conversation, and itself."""
    files = [each for each in path.parent.rglob("*") if each.is_file()]
    return "".join(each.read_text(encoding="utf-8") for each in files)


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


async def reopened(context: PersistentContextManager, open_context: Open) -> list[dict[str, Any]]:
    await context.close()
    return await (await open_context()).get_messages()


@pytest.mark.attack("K1")
@pytest.mark.parametrize("kind", EXAMPLES)
async def test_no_kind_of_secret_reaches_the_file(
    open_context: Open, path: Path, kind: str
) -> None:
    context = await open_context()

    await context.add_message(said({"type": "text", "text": f"I found {EXAMPLES[kind]} there."}))
    await context.add_message(
        {"role": "tool", "tool_call_id": "c", "content": f"Error: {EXAMPLES[kind]}"}
    )

    assert hidden_part(kind) not in written(path)


@pytest.mark.attack("K1")
@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": f"use {KNOWN}"},
        {"role": "tool", "tool_call_id": "c", "content": {"env": {"value": KNOWN}}},
        {"role": "tool", "tool_call_id": "c", "content": ({KNOWN: 1},)},
        {"role": "tool", "tool_call_id": "c", "content": b64encode(KNOWN.encode()).decode()},
        {"role": "user", "content": [{"type": "image", "source": {"data": KNOWN}}]},
        {"role": "assistant", "content": "x", "metadata": {"explanation": KNOWN}},
        said({"type": "thinking", "thinking": KNOWN, "signature": KNOWN}),
    ],
)
async def test_a_known_secret_is_blanked_wherever_it_is(
    open_context: Open, path: Path, message: dict[str, Any]
) -> None:
    context = await open_context()

    await context.add_message(message)

    assert "[REDACTED:DEPLOY_TOKEN]" in written(path)
    assert KNOWN not in written(path)
    assert b64encode(KNOWN.encode()).decode().rstrip("=")[:-1] not in written(path)


@pytest.mark.parametrize(
    "message",
    [
        said({"type": "thinking", "thinking": "a token is due", "signature": OPAQUE, "x": NOTHING}),
        said({"type": "redacted_thinking", "data": OPAQUE}),
        said({"type": "thinking", "thinking": "", "content": [{"encrypted_content": OPAQUE}]}),
        said({"type": "reasoning", "summary": [], "content": [OPAQUE, "rs_1"]}),
        said({"type": "text", "text": "a key", "gemini": {"signed": [[0, 5, OPAQUE]]}}),
        said(
            {
                "type": "tool_call",
                "id": OPAQUE,
                "name": "t",
                "input": NOTHING,
                "gemini": {"s": OPAQUE},
            }
        ),
        said({"type": "server_tool", "results": [{"title": "a", "encrypted_content": OPAQUE}]}),
        {**said(), "tool_calls": [{"id": OPAQUE, "tool": "t", "arguments": NOTHING}]},
        {"role": "tool", "tool_call_id": OPAQUE, "content": "ok"},
        {"role": "user", "content": [{"type": "image", "source": {"data": OPAQUE}}]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "image", "data": OPAQUE}]},
        {"role": "assistant", "content": "ok", "metadata": {"response_id": OPAQUE}},
    ],
)
async def test_what_a_vendor_wants_back_is_written_byte_for_byte(
    open_context: Open, path: Path, message: dict[str, Any]
) -> None:
    assert sum(each.regex.search(OPAQUE) is not None for each in PATTERNS) >= 4
    context = await open_context()

    await context.add_message(message)

    assert json.dumps(message, separators=(",", ":")) in written(path)
    assert await reopened(context, open_context) == [message]


async def test_a_thought_with_a_secret_in_it_loses_what_is_no_longer_true(
    open_context: Open,
) -> None:
    context = await open_context()
    thought = {"type": "thinking", "thinking": f"It is {FORMED}.", "signature": OPAQUE}
    copy = {"content": [{"summary": f"It is {FORMED}.", "encrypted_content": OPAQUE}]}

    await context.add_message(said({**thought, **copy}, {"type": "text", "text": "Done."}))

    assert await reopened(context, open_context) == [
        said(
            {"type": "thinking", "thinking": "It is [REDACTED:github-token]."},
            {"type": "text", "text": "Done."},
        )
    ]


async def test_a_call_keeps_its_id_when_its_input_is_blanked(open_context: Open) -> None:
    context = await open_context()
    block = {
        "type": "tool_call",
        "id": "c1",
        "name": "bash",
        "input": {"type": "text", "command": FORMED},
    }
    calls = [{"id": "c1", "tool": "bash", "arguments": {"type": "text", "command": FORMED}}]

    await context.add_message({**said(block), "tool_calls": calls})

    (message,) = await reopened(context, open_context)
    blank = {"type": "text", "command": "[REDACTED:github-token]"}
    assert message["content"] == [{**block, "input": blank}]
    assert message["tool_calls"] == [{**calls[0], "arguments": blank}]


async def test_the_running_session_reads_the_words_and_a_resumed_one_the_marker(
    open_context: Open,
) -> None:
    context = await open_context()
    message = {"role": "user", "content": f"use {KNOWN}"}

    await context.add_message(message)

    assert await context.get_messages() == [message]
    resumed = await reopened(context, open_context)
    assert resumed == [{"role": "user", "content": "use [REDACTED:DEPLOY_TOKEN]"}]


@pytest.mark.attack("K1")
@pytest.mark.parametrize("before", range(480, 520))
async def test_no_half_of_a_secret_is_left_where_a_large_result_is_cut(
    open_context: Open, path: Path, before: int
) -> None:
    context = await open_context(spill_chars=1_000)
    text = f"{'a' * before}{KNOWN}{'b' * 2_000}"

    await context.add_message({"role": "tool", "tool_call_id": "c", "content": text})

    assert "canary" not in written(path)
    assert len(list(path.parent.glob("*.blobs/result-*"))) == 1
    assert "canary" not in str(await context.get_messages())


async def test_what_is_written_by_the_way_is_searched_too(open_context: Open, path: Path) -> None:
    context = await open_context()
    message = {"role": "user", "content": KNOWN}

    await context.set_messages([message])
    context.messages.append(message)
    await context.close()

    assert KNOWN not in written(path)
    assert written(path).count("[REDACTED:DEPLOY_TOKEN]") == 2


async def test_what_becomes_known_is_known_from_the_next_prompt_on(
    open_context: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await open_context()
    monkeypatch.setitem(os.environ, "OTHER_TOKEN", "later-5Rt8Wq1Zx")

    await context.add_message({"role": "user", "content": "later-5Rt8Wq1Zx"})

    assert "later-5Rt8Wq1Zx" not in written(path)


async def test_what_was_blanked_is_announced_at_the_turn_s_end(
    open_context: Open, recorder: EventRecorder, screen: Any
) -> None:
    context = await open_context()
    await context.add_message(said({"type": "text", "text": f"{KNOWN} {FORMED}"}))

    for event in ("prompt:complete", "execution:end"):
        await context.sync_at_turn_end(event, {})

    ((_, told),) = recorder.get_events("context:blanked")
    assert told["kinds"] == {"DEPLOY_TOKEN": 1, "github-token": 1}
    assert screen.lines == [
        "info: Blanked in the file of the conversation: DEPLOY_TOKEN, github-token."
    ]


async def test_switched_off_it_writes_what_it_is_given(open_context: Open, path: Path) -> None:
    context = await open_context(blank_secrets=False)

    await context.add_message({"role": "user", "content": KNOWN})

    assert KNOWN in written(path)


@pytest.mark.attack("H1")
async def test_when_the_search_fails_nothing_is_written(path: Path) -> None:
    coordinator = MockCoordinator()
    close = await mount(coordinator, {"path": str(path)})
    # A value to search for that is no text.
    coordinator.get_mounted("context")._scrubber._scrubber.known = {b"no text": "x"}

    with pytest.raises(TypeError):
        await coordinator.get_mounted("context").add_message(
            said({"type": "text", "text": "lost?"})
        )

    assert "lost?" not in written(path)
    assert await coordinator.get_mounted("context").get_messages() == []
    await close()
