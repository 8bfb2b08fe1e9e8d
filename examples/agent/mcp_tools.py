"""An agent with the tools of an MCP server, which runs in a sandbox beside it.

It prints the tool that the mock model called, and the result. It needs the extra `mcp`.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from amplifier import Agent, ToolEnded

SERVER = Path(__file__).with_name("mcp_server.py")
SCRIPT = [
    {"tool_calls": [{"name": "sums__add", "arguments": {"first": 2, "second": 3}}]},
    "The sum is 5.",
]


def make_agent(folder: Path) -> Agent:
    sums = {
        "command": sys.executable,
        "args": [str(SERVER)],
        "cwd": str(folder),
        "read_only_paths": [sys.prefix, sys.base_prefix, str(SERVER.parent)],
        # Without this, the user is asked before the model sees what the server offers.
        "trust": True,
    }
    config = {"servers": {"sums": sums}, "seen_file": str(folder / "seen.json")}
    return Agent(
        {"module": "provider-mock", "config": {"script": SCRIPT}},
        tool_modules=[{"module": "tool-mcp", "config": config}],
    )


async def main(folder: Path) -> None:
    async with make_agent(folder).session() as session:
        async for event in session.stream("What is 2 + 3?"):
            if isinstance(event, ToolEnded):
                print(event.name, event.error or event.output["structured"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
