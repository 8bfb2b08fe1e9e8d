"""The configuration of hooks-approval; its README says what each key means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from amplifier_kit.widenings import OPENINGS

Action: TypeAlias = Literal["allow", "deny", "ask"]
Scope: TypeAlias = Literal["session", "project", "user"]
Mode: TypeAlias = Literal["ask", "edits", "plan", "auto"]

_CLOSED = ConfigDict(extra="forbid", frozen=True)


class Rule(BaseModel):
    """What is to happen with calls of a tool whose arguments look like this."""

    model_config = _CLOSED

    tool: str = Field(min_length=1, description="A name; `*` stands for anything.")
    arguments: dict[str, str] = Field(
        default_factory=dict[str, str], description="Patterns by argument; all have to match."
    )
    action: Action
    scope: Scope | None = Field(default=None, description="How far a remembered answer reaches.")
    until: AwareDatetime | None = Field(default=None, description="The rule ends here.")
    plan: bool = Field(default=False, description="It allows in the mode `plan`, too.")
    who: str | None = Field(default=None, description="Who made the rule.")
    why: str | None = None


class ApprovalConfig(BaseModel):
    """Which calls are allowed, denied or asked about, and how."""

    model_config = _CLOSED

    rules: list[Rule] = Field(default_factory=list[Rule])
    mode: Mode = Field(default="ask", description="How much is asked about; apps can change it.")
    open: list[Annotated[str, Field(pattern=f"^({OPENINGS})$")]] = Field(
        default_factory=list[str],
        description="What calls may need beyond their sandbox without a question.",
    )
    default: Action = Field(default="ask", description="For calls that no rule matches.")
    classes: dict[Literal["idempotent", "unsafe"], Action] = Field(
        default_factory=dict[Literal["idempotent", "unsafe"], Action],
        description="The default by what the tool says that calling it does.",
    )
    headless: Literal["deny", "park"] = Field(
        default="deny", description="What happens to a question when there is nobody to ask."
    )
    timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        description="For an answer; null: no limit where a question can wait, else 300.",
    )
    batch_seconds: float = Field(
        default=0.05, ge=0, description="Wait for other calls of the same step to ask about."
    )
    remember_scope: Scope = "session"
    remember_seconds: float = Field(default=28_800.0, gt=0, description="Life of a grant.")
    grants_file: Path = Field(
        default=Path("~/.amplifier/grants.json"), description="Grants beyond the session."
    )
