"""Guards: hooks without which no session starts, and which are replaced only by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from amplifier_foundation.config.modules import merge, module_key
from amplifier_foundation.errors import GuardError

__all__ = [
    "GUARDS",
    "check_keys",
    "is_guard",
    "lay_hooks",
    "refuse_replacement",
    "refuse_without_guard",
    "replacement_error",
    "require_guards",
    "with_required_guards",
]

# Shipped hooks that refuse what must not happen. Any entry that says `required: true` is one too.
GUARDS = frozenset({"hooks-approval", "hooks-budget", "hooks-redaction", "hooks-taint"})
_ENTRY_KEYS = ("module", "source", "config", "id", "instance_id", "required", "replaces")
_LONGEST_CAUSE = 500

Entry = dict[str, Any]


def is_guard(entry: Entry) -> bool:
    """Whether a session must not start without this hook."""
    return entry.get("module") in GUARDS or bool(entry.get("required") or entry.get("replaces"))


def with_required_guards(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a mount plan in which every guard is required, in agents' overlays too.

    `required: false` does not make a guard optional, in whichever layer it is written.
    """
    required = {**plan}
    if plan.get("hooks"):
        required["hooks"] = _required(plan["hooks"])
    agents: Any = plan.get("agents")
    if isinstance(agents, dict):
        named = cast("dict[str, Any]", agents)
        required["agents"] = {name: _agent(each) for name, each in named.items()}
    return required


def lay_hooks(earlier: list[Entry], later: list[Entry], where: object) -> list[Entry]:
    """Return the hooks of both lists; entries of one module are merged, guards are kept.

    An entry with `replaces` takes the place of the guard that it names. The configuration of that
    guard is kept only if both are the same code.

    Raises:
        GuardError: an entry of `later`, which is written in `where`, would replace a guard without
            naming it.
    """
    check_keys(later, where)
    refuse_replacement(earlier, later, where)
    laid = {module_key(each): each for each in earlier}
    for entry in later:
        if "replaces" in entry:
            _drop_replaced(laid, entry)
        key = module_key(entry)
        below = laid.get(key, {})
        laid[key] = merge(below, entry)
        if below.get("required"):
            # What one layer requires, no later layer makes optional.
            laid[key]["required"] = True
    return list(laid.values())


def check_keys(entries: list[Entry], where: object) -> None:
    """Raise GuardError for an unknown key in the entry of a guard."""
    # An ignored typo, say of `config`, would leave the guard weaker than its author believes.
    for entry in entries:
        for key in entry if is_guard(entry) else ():
            if key not in _ENTRY_KEYS:
                raise GuardError(
                    f"`{key}` in the entry of the guard `{entry['module']}` is not a valid key."
                    f"{_suggestion(key, _ENTRY_KEYS)}",
                    why=f"It is in `{where}`.",
                    fix="correct the key, or remove it",
                )


def refuse_replacement(base: list[Entry], overlay: list[Entry], where: object) -> None:
    """Raise GuardError if `overlay` replaces a guard of `base` without naming it."""
    guards = [each for each in base if is_guard(each)]
    for entry in overlay:
        _check_replaced(entry, base, where)
        for guard in guards:
            change = _change(guard, entry)
            if change and entry.get("replaces") != guard["module"]:
                raise replacement_error(guard["module"], where, f"Its entry has `{change}`")


def require_guards(standard: list[Entry], hooks: list[Entry], bundle: str) -> None:
    """Raise GuardError if a bundle that a project chose lacks one of the standard guards."""
    present = {each["module"] for each in hooks} | {each.get("replaces") for each in hooks}
    missing = [each["module"] for each in standard if each["module"] not in present]
    if missing:
        raise GuardError(
            f"The bundle `{bundle}` of this project has no {', '.join(missing)}.",
            why="A project cannot choose a session without guards; only you can.",
            fix="write `includes: [default]` into it, or name its path yourself: "
            "amplifier run -b PATH",
        )


def refuse_without_guard(plan: dict[str, Any], failed: Iterable[str], cause: str) -> None:
    """Raise GuardError if a guard is among the modules that failed."""
    failed = set(failed)
    for entry in plan.get("hooks") or ():
        if entry.get("required") and entry.get("module") in failed:
            # In one line: the command shows an error in three.
            raise GuardError(
                f"The guard `{entry['module']}` did not start, so no session does.",
                why=" ".join(cause.split())[:_LONGEST_CAUSE],
                fix="amplifier doctor",
            )


def replacement_error(guard: str, where: object, why: str) -> GuardError:
    """Return the error for replacing a guard without naming it."""
    return GuardError(
        f"`{guard}` is a guard, and `{where}` would replace it.",
        why=f"{why} and does not say `replaces: {guard}`.",
        fix=f"write `replaces: {guard}` into that entry; a bundle that is not yours is included "
        "before `default:guards`, without `default`",
    )


def _agent(overlay: Any) -> Any:
    if not isinstance(overlay, dict) or not overlay.get("hooks"):  # pyright: ignore[reportUnknownMemberType] - a plan's own
        return cast("Any", overlay)
    own = cast("dict[str, Any]", overlay)
    return {**own, "hooks": _required(own["hooks"])}


def _required(entries: list[Entry]) -> list[Entry]:
    return [{**each, "required": True} if is_guard(each) else each for each in entries]


def _drop_replaced(laid: dict[str, Entry], entry: Entry) -> None:
    replaced = entry["replaces"]
    for key, each in list(laid.items()):
        is_named = replaced in (key, each["module"])
        # Another bundle's configuration of the same code stays, to be merged: a bundle that adds
        # an approval rule must not lose it because `default:guards` is included after it.
        if is_named and _code(each) != _code(entry):
            del laid[key]


def _code(entry: Entry) -> tuple[str, Any]:
    return entry["module"], entry.get("source")


def _change(guard: Entry, entry: Entry) -> str:
    """Return the key by which an entry would change the code of a guard; "" if there is none."""
    is_same_place = module_key(entry) == module_key(guard)
    if is_same_place and entry["module"] != guard["module"]:
        return f"module: {entry['module']}"
    is_about_it = is_same_place or entry["module"] == guard["module"]
    if is_about_it and "source" in entry and entry["source"] != guard.get("source"):
        return f"source: {entry['source']}"
    return ""


def _check_replaced(entry: Entry, base: list[Entry], where: object) -> None:
    known = sorted({each["module"] for each in base} | GUARDS)
    replaced = entry.get("replaces")
    if "replaces" in entry and replaced not in known:
        hint = _suggestion(str(replaced), known)
        raise GuardError(
            f"`replaces: {replaced}` in `{where}` is not the name of a hook.{hint}",
            fix="correct the name, or remove the entry",
        )


def _suggestion(word: str, known: Iterable[str]) -> str:
    from amplifier_foundation.config.documents import suggestion  # noqa: PLC0415 - brings YAML

    return suggestion(word, known)
