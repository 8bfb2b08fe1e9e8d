"""The code blocks of the context contract that are about compaction, run as written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.testing import EventRecorder
from contract.doubles import broken_pairs
from contract.requirements import requirement
from contract.seed_contexts import OURS, TALK, Mounted, holder, inner, length
from contract.seed_runs import module_names
from contract.seeds import BLOCKS, run_block


@requirement("SONE-1639")
@pytest.mark.parametrize("whose", [*OURS, "my-context"])
async def test_a_view_is_smaller_and_the_history_stays_whole_as_drawn(
    whose: str, tmp_path: Path
) -> None:
    config = {"max_tokens": 500, "compaction_threshold": 0.5}
    if whose == "my-context":
        context = module_names("context")["MyContextManager"](**config)
    else:
        context = Mounted(whose, tmp_path / "messages.jsonl", **config)
    for number in range(40):
        await context.add_message({"role": "user", "content": f"{number} " + "x" * 80})
    before = [dict(each) for each in await context.get_messages()]

    view = await context.get_messages_for_request()

    drawing = BLOCKS["S1:1639"].text
    assert "(compacted view)" in drawing
    assert len(str(view)) < len(str(before)) / 2
    assert view[-1]["content"] == before[-1]["content"]
    assert "(FULL history)" in drawing
    assert await context.get_messages() == before
    assert len(before) == 40
    if isinstance(context, Mounted):
        await context.close()


@requirement("SONE-1674")
async def test_the_shown_view_is_made_of_a_copy() -> None:
    def compacted(messages: list[Any], budget: int) -> list[Any]:
        del messages[:-1]
        return messages

    def budget_of(budget: int, provider: Any) -> int:
        return budget

    def is_more(count: int, budget: int) -> bool:
        return count > budget

    context = await holder(
        "S1:1674",
        _messages=[1, 2, 3],
        _count_tokens=len,
        _calculate_budget=budget_of,
        _should_compact=is_more,
        _compact_messages=compacted,
    )

    assert await context.get_messages_for_request(3) == [1, 2, 3]
    assert await context.get_messages_for_request(2) == [3]
    assert await context.get_messages() == [1, 2, 3]


@requirement("SONE-1699")
@pytest.mark.parametrize("keep", [2, 3, 4])
async def test_the_shown_compaction_keeps_pairs_and_says_so(keep: int) -> None:
    hooks = EventRecorder()
    facts: dict[str, Any] = {"_hooks": hooks, "_keep_recent": keep, "_estimate_tokens": length}
    talk = [dict(each) for each in TALK]
    context = await holder("S1:1699", _messages=talk, _token_count=1_216, **facts)

    await inner(context, "_compact_internal")()

    kept = inner(context, "_messages")
    assert kept[0] == TALK[0]
    assert broken_pairs(kept) == []
    assert [event for event, _ in hooks.events] == ["context:pre_compact", "context:post_compact"]
    assert hooks.events[0][1] == {"message_count": 6, "token_count": 1_216}
    assert hooks.events[1][1] == {"message_count": len(kept), "token_count": sum(map(length, kept))}


@requirement("SONE-1759")
@pytest.mark.parametrize(("keep", "roles"), [(1, 1), (2, 2), (3, 4)])
async def test_the_shown_truncation_splits_no_pair(keep: int, roles: int) -> None:
    holding = SimpleNamespace(_messages=[dict(each) for each in TALK])

    await run_block("S1:1759", {"self": holding, "keep_count": keep})

    assert inner(holding, "_messages") == TALK[-roles:]


@requirement("SONE-1772")
async def test_the_shown_summary_stands_for_old_messages() -> None:
    holding = SimpleNamespace(_messages=[dict(each) for each in TALK])

    async def summarize(messages: list[Any]) -> str:
        return f"{len(messages)} messages"

    await run_block("S1:1772", {"self": holding, "keep_recent": 2, "summarize": summarize})

    summary, *recent = inner(holding, "_messages")
    assert summary == {"role": "system", "content": "Previous conversation summary: 4 messages"}
    assert recent == TALK[-2:]


@requirement("SONE-1788")
async def test_the_shown_choice_by_importance_keeps_the_best() -> None:
    def in_order(kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each for each in TALK if each in kept]

    holding = SimpleNamespace(
        _messages=[dict(each) for each in TALK],
        _score_importance=length,
        _reorder_preserving_tool_pairs=in_order,
    )

    await run_block("S1:1788", {"self": holding, "keep_count": 3})

    assert inner(holding, "_messages") == [TALK[1], TALK[3], TALK[4]]
