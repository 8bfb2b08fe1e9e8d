"""The configuration of tool-mcp; its README says what each key means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, SecretStr, Tag

_CLOSED = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class StdioServer(BaseModel):
    """A server that is started here and spoken to through its pipes."""

    model_config = _CLOSED

    command: str = Field(min_length=1)
    args: list[str] = Field(default_factory=list[str])
    env_pass: list[str] = Field(default_factory=list[str])
    cwd: str | None = None
    sandbox: Literal["auto", "required", "off"] = "auto"
    network: bool = False
    read_only_paths: list[str] = Field(default_factory=list[str])
    writable_paths: list[str] = Field(default_factory=list[str])
    trust: bool = False


class HttpServer(BaseModel):
    """A server that runs elsewhere and is spoken to by streamable HTTP."""

    model_config = _CLOSED

    url: str = Field(pattern=r"^https?://")
    headers: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    trust: bool = False


def _transport_of(value: Any) -> str:
    if isinstance(value, dict):
        has_url = "url" in value
    else:
        has_url = isinstance(value, HttpServer)
    return "http" if has_url else "stdio"


AnyServer = Annotated[
    Annotated[StdioServer, Tag("stdio")] | Annotated[HttpServer, Tag("http")],
    Discriminator(_transport_of),
]
# Two underscores separate the server from the tool, so the name of a server must not have two.
ServerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([_-]?[A-Za-z0-9]+)*$", max_length=32)]


class McpConfig(BaseModel):
    """The servers, the time they get, and how much of them the model is told."""

    model_config = _CLOSED

    servers: dict[ServerName, AnyServer] = Field(default_factory=dict[ServerName, AnyServer])
    seen_file: Path = Path("~/.amplifier/mcp-tools.json")
    schema_share: float = Field(default=0.1, gt=0, le=1)
    connect_seconds: float = Field(default=30, gt=0)
    call_seconds: float = Field(default=120, gt=0)
    shutdown_seconds: float = Field(default=2, ge=0)
    approval_seconds: float = Field(default=300, gt=0)
    max_schema_bytes: int = Field(default=65_536, ge=100)
    max_message_bytes: int = Field(default=4 * 1024**2, ge=10_000)
    max_output_chars: int = Field(default=100_000, ge=200)
