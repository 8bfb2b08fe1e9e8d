"""An MCP server made with the SDK's own server side, over its pipes or over HTTP on a port."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")


@server.tool()
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
