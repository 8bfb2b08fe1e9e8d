"""Appends to a conversation until it is killed; forks for each file, so that a start costs nothing.

For each path on its standard input it starts a process that opens the conversation there, says
`open`, then says the number of each message when it was acknowledged. It says `pid` first, and
`dead` when that process has ended.
"""

from __future__ import annotations

import asyncio
import os
import sys

from amplifier_core.testing import MockCoordinator
from amplifier_module_contexts.context_persistent import mount

if sys.platform == "win32":
    raise SystemExit("Windows has no fork.")

_ROLES = ("user", "assistant", "tool")


def say(*words: object) -> None:
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


async def append(path: str) -> None:
    coordinator = MockCoordinator()
    await mount(coordinator, {"path": path, "spill_chars": 1_000})
    context = coordinator.get_mounted("context")
    number = len(context.messages)
    say("open")
    while True:
        content = f"{number} " + "x" * (number * 37 % 1_500)
        await context.add_message({"role": _ROLES[number % 3], "content": content})
        say(number)
        number += 1


for line in sys.stdin:
    child = os.fork()
    if not child:
        asyncio.run(append(line.strip()))
    say("pid", child)
    os.waitpid(child, 0)
    say("dead")
