"""Opens a conversation and adds each line of its standard input to it; says how that went."""

from __future__ import annotations

import asyncio
import sys

from amplifier_core.testing import MockCoordinator
from amplifier_module_contexts.context_persistent import mount


async def hold(path: str) -> None:
    coordinator = MockCoordinator()
    await mount(coordinator, {"path": path})
    context = coordinator.get_mounted("context")
    sys.stdout.write("open\n")
    sys.stdout.flush()
    for line in sys.stdin:
        try:
            await context.add_message({"role": "user", "content": line.strip()})
            outcome = "added"
        except RuntimeError as error:
            outcome = f"{type(error).__name__}: {error}"
        sys.stdout.write(f"{outcome}\n")
        sys.stdout.flush()


asyncio.run(hold(sys.argv[1]))
