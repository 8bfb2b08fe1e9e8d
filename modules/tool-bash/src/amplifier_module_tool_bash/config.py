"""The configuration of tool-bash; its README says what each key means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from amplifier_sandbox.processes.sandbox import PROTECTED

UNPROTECTED = "off: run commands unprotected"

_CLOSED = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class AllowRule(BaseModel):
    """Commands that nobody is asked about."""

    model_config = _CLOSED

    program: str = Field(min_length=1)
    args: str = ""


def _as_rule(value: object) -> object:
    if not isinstance(value, str):
        return value
    program, _, args = value.strip().partition(" ")
    return {"program": program, "args": args}


class BashConfig(BaseModel):
    """Where commands run, what they may use, and which of them are asked about."""

    model_config = _CLOSED

    sandbox: Literal["required", "off: run commands unprotected"] = "required"
    ask: bool = True
    allow: list[Annotated[AllowRule, BeforeValidator(_as_rule)]] = Field(
        default_factory=list[AllowRule]
    )
    working_dir: str | None = None
    network: bool = False
    protected_paths: list[str] = Field(default=list(PROTECTED))
    read_only_paths: list[str] = Field(default_factory=list[str])
    writable_paths: list[str] = Field(default_factory=list[str])
    toolchains: bool = True
    pass_env: list[str] = Field(default_factory=list[str])
    timeout_seconds: float = Field(default=120, gt=0)
    max_timeout_seconds: float = Field(default=600, gt=0)
    cpu_seconds: int | None = Field(default=None, gt=0)
    memory_bytes: int = Field(default=2 * 1024**3, ge=16 * 1024**2)
    processes: int = Field(default=256, ge=8)
    temporary_bytes: int = Field(default=256 * 1024**2, ge=4096)
    parallel_commands: int = Field(default=8, ge=1)
    max_disk_bytes: int = Field(default=10 * 1024**3, ge=1024**2)
    keep_free_bytes: int = Field(default=1024**3, ge=0)
    output_bytes: int = Field(default=16_000, ge=200)
    max_output_bytes: int = Field(default=100_000_000, ge=200)
    approval_timeout_seconds: float = Field(default=300, gt=0)
