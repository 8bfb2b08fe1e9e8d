"""A whole agent without a key: the mock model calls the tool it finds, then answers."""

import asyncio

from amplifier_core import AmplifierSession, MockTool

PLAN = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock"}],
}


async def main() -> None:
    async with AmplifierSession(PLAN) as session:
        await session.coordinator.mount("tools", MockTool("clock", "It is noon."))
        print(await session.execute("What does the clock say?"))


asyncio.run(main())
