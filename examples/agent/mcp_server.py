"""An MCP server with one tool, over pipes; `mcp_tools.py` starts it."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")


@server.tool()
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


if __name__ == "__main__":
    server.run("stdio")
