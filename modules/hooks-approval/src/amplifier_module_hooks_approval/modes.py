"""The modes of a session: what is asked about, allowed or denied besides the rules.

Tools tell the guard what it has to know:

- `is_bounded`: calls can change nothing outside of the workspace, except by a widening;
- `edits_files`: calls change files of the workspace, and nothing else, except by a widening;
- `only_reads(input)`: this call changes nothing.
"""

from __future__ import annotations

from typing import Any

from amplifier_core.effects import Effect
from amplifier_module_hooks_approval.config import Mode
from amplifier_module_hooks_approval.rules import Call, Ruling

MODES: dict[Mode, str] = {
    "ask": "asks before a call that changes something",
    "edits": "changes files of the workspace without asking, by edits and commands",
    "plan": "reads only, and ends with a plan",
    "auto": "does all that is inside of the sandbox without asking",
}
"""What each mode does, in words for a user."""

_NOT_PLANNED = (
    "the mode is `plan`: nothing is changed. Read what you need, then end with a plan for the user"
)


def only_reads(tool: Any, call: Call, effect: Effect) -> bool:
    """Whether a call changes nothing, as its tool says."""
    if effect == "pure":
        return True
    says = getattr(tool, "only_reads", None)
    return says is not None and says(call.arguments) is True


def denied_by(mode: Mode, ruling: Ruling, *, reads: bool) -> Ruling | None:
    """Return the denial of a mode, or None; a rule can except a tool from it."""
    is_excepted = ruling.action == "allow" and ruling.rule is not None and ruling.rule.plan
    if mode != "plan" or reads or is_excepted:
        return None
    return Ruling("deny", "mode", _NOT_PLANNED)


def allowed_by(mode: Mode, tool: Any) -> Ruling | None:
    """Return what a mode allows of a call that needs nothing beyond the sandbox, or None."""
    if mode == "auto" and getattr(tool, "is_bounded", None) is True:
        return Ruling("allow", "mode", "the mode is `auto`, and it stays inside of the sandbox")
    if mode == "edits" and getattr(tool, "edits_files", None) is True:
        words = "the mode is `edits`, and it changes only files of the workspace"
        return Ruling("allow", "mode", words)
    return None
