"""How long a question waits for its answer, and what is left behind when none came."""

from __future__ import annotations

import asyncio
import gc
import math
from typing import Any


async def test_a_question_at_a_terminal_waits_as_long_as_it_takes(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    ann.waits_for_user = True
    asked_for: list[float] = []
    request_approval = ann.request_approval

    async def note(prompt: str, options: list[str], timeout: float, default: str) -> Any:
        asked_for.append(timeout)
        return await request_approval(prompt, options, timeout, default)

    ann.request_approval = note
    house = await build([calling("bash")], person=ann)

    await house.run()

    assert asked_for == [math.inf]
    assert len(house.ran()) == 1


async def test_a_timeout_leaves_no_exception_that_nobody_looked_at(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    ann.gate.clear()
    house = await build([calling("bash")], person=ann, timeout_seconds=0.02)
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))

    await house.run()
    await asyncio.sleep(0)
    gc.collect()

    assert unseen == []
    assert any("`timeout_seconds` of hooks-approval" in line for line in house.screen.lines)
