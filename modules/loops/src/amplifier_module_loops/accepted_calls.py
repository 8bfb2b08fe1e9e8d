"""How many calls of one answer are accepted."""

from __future__ import annotations

from amplifier_core.message_models import ChatResponse, ToolCall
from amplifier_kit.turn_events import CALLS_DROPPED
from amplifier_module_loops.announcer import Announcer


def first_calls(
    response: ChatResponse, calls: list[ToolCall], most: int
) -> tuple[ChatResponse, list[ToolCall]]:
    """Return the answer and its calls without those after the first `most`.

    The others leave the answer itself. With a result for each of them, thousands of calls would
    fill the window, and the turn could not continue.
    """
    kept = calls[:most]
    kept_ids = {call.id for call in kept}
    content = [
        block for block in response.content if block.type != "tool_call" or block.id in kept_ids
    ]
    changes = {"content": content, "tool_calls": kept}
    return response.model_copy(update=changes), kept


async def report_dropped(announcer: Announcer, total: int, most: int) -> None:
    """Report the calls that were not accepted: to the model, the hooks and the user."""
    dropped = total - most
    announcer.injections.add(
        f"Your last answer had {total:,} tool calls. The first {most:,} were accepted; the other "
        f"{dropped:,} were not run and have no results. Make at most {most:,} calls at a time."
    )
    facts = {"calls": total, "accepted": most, "dropped": dropped}
    line = f"The model made {total:,} tool calls in one answer; {dropped:,} of them were not run."
    await announcer.warn(CALLS_DROPPED, facts, line)
