"""The shape of a mount plan, checked before the plan is used; errors name the wrong place."""

from __future__ import annotations

from typing import Any, cast

from amplifier_foundation.errors import PlanError
from amplifier_kit.valid_text import MOST_LEVELS, is_too_deep, valid

__all__ = ["checked_plan"]

_PARTS = ("orchestrator", "context")
_LISTS = ("providers", "tools", "hooks")
_KINDS: dict[str, tuple[type, ...]] = {
    "config": (dict,),
    "source": (str, dict),
    "instance_id": (str,),
    "required": (bool,),
}


def checked_plan(plan: Any) -> dict[str, Any]:
    """Return a well-formed plan with every text in it made valid.

    Raises:
        PlanError: the plan is malformed; `path` says where.
    """
    if is_too_deep(plan):
        raise PlanError("plan", f"It is nested deeper than {MOST_LEVELS} levels.")
    if not _is_plain(plan):
        _explain(plan)
    sections = cast("dict[str, Any]", plan)
    agents: Any = sections.get("agents") or {}
    if not isinstance(agents, dict):
        raise PlanError("agents", f"agents must be a dict, got {type(agents).__name__}.")
    _check_repeatable(sections.get("tools") or [])
    return valid(sections)


def _check_repeatable(tools: list[dict[str, Any]]) -> None:
    """Raise PlanError if `repeatable` is not a list of names: `in` would find parts of a string."""
    for number, entry in enumerate(tools):
        names: Any = entry.get("repeatable") or []
        is_list = isinstance(names, list)
        if not is_list or not all(isinstance(name, str) for name in cast("list[Any]", names)):
            raise PlanError(f"tools[{number}].repeatable", "It must be a list of names of tools.")


def _is_plain(plan: Any) -> bool:
    """Whether a plan is certainly well-formed; False only means that the validator has to look."""
    if not isinstance(plan, dict):
        return False
    sections = cast("dict[str, Any]", plan)
    session: Any = sections.get("session")
    if not isinstance(session, dict):
        return False
    parts = [cast("dict[str, Any]", session).get(name) for name in _PARTS]
    entries: list[Any] = [each for each in parts if not (isinstance(each, str) and each)]
    for name in _LISTS:
        listed: Any = sections.get(name) or []
        if not isinstance(listed, list):
            return False
        entries += cast("list[Any]", listed)
    settings: list[Any] = [sections.get(name) or {} for name in _PARTS]
    return all(map(_is_entry, entries)) and all(map(_is_section, settings))


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    fields = cast("dict[str, Any]", entry)
    module: Any = fields.get("module")
    return isinstance(module, str) and bool(module.strip()) and _is_section(fields)


def _is_section(fields: Any) -> bool:
    if not isinstance(fields, dict):
        return False
    named = cast("dict[str, Any]", fields)
    return all(
        named.get(name) is None or isinstance(named[name], kind) for name, kind in _KINDS.items()
    )


def _explain(plan: Any) -> None:
    """Raise PlanError with the first error that the kernel's validator finds, if any."""
    # Loads all validators; a session with a well-formed plan does not pay for them.
    from amplifier_core.validation import MountPlanValidator  # noqa: PLC0415

    # Sessions read an empty section of any type as one that is absent.
    given: Any = plan
    if isinstance(plan, dict):
        sections = cast("dict[str, Any]", plan)
        named = (*_LISTS, *_PARTS)
        given = {name: each for name, each in sections.items() if each or name not in named}
    wrong = MountPlanValidator(allow_short_form=True).validate(given).errors
    if wrong:
        # Every message of the validator begins with the place, or with "Mount plan".
        place = wrong[0].message.split()[0]
        raise PlanError("plan" if place == "Mount" else place, f"{wrong[0].message}.")
