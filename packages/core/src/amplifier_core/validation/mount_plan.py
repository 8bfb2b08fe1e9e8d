"""The validator of mount plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from amplifier_core.validation.base import (
    ValidationCheck,
    ValidationResult,
    failed,
    passed,
)

__all__ = ["MountPlanValidationResult", "MountPlanValidator"]

_ESSENTIAL = ("orchestrator", "context")
_LISTS = ("providers", "tools", "hooks")
_KNOWN = frozenset({"session", "agents", *_ESSENTIAL, *_LISTS})
_EXPECTED = "expected {'module': '<module id>', 'source': ..., 'config': {...}}"

# Optional fields of an entry: their types, and the description for error messages.
_FIELDS: dict[str, tuple[tuple[type, ...], str]] = {
    "config": ((dict, type(None)), "a dict"),
    "source": ((str, dict, type(None)), "a string"),
    "instance_id": ((str, type(None)), "a string"),
    "required": ((bool,), "true or false"),
}


@dataclass
class MountPlanValidationResult(ValidationResult):
    """All checks of one mount plan."""

    module_type: str = "mount_plan"
    module_path: str = ""

    def format_errors(self) -> str:
        """Return the errors as a numbered list for the user."""
        if not self.errors:
            return "No errors"
        lines = [
            f"  {number}. [{check.name}] {check.message}"
            for number, check in enumerate(self.errors, start=1)
        ]
        heading = "Mount Plan Validation Failed:"
        total = f"Total: {len(self.errors)} error(s)"
        return "\n".join([heading, *lines, total])


class MountPlanValidator:
    """Checks the shape of a mount plan, without loading anything.

    With `allow_short_form`, `session.orchestrator` and `session.context` may be plain module ids,
    as sessions accept them.
    """

    def __init__(self, *, allow_short_form: bool = False) -> None:
        self._allow_short_form = allow_short_form

    def validate(self, plan: Any) -> MountPlanValidationResult:
        """Check every section that the kernel reads; agents are left to the app."""
        result = MountPlanValidationResult()
        for check in self._checks(plan):
            result.add(check)
        return result

    def _checks(self, plan: Any) -> Iterator[ValidationCheck]:
        sections = _as_dict(plan)
        if sections is None:
            yield failed("root_type", f"Mount plan must be a dict, got {_type(plan)}")
            return
        yield passed("root_type", "Mount plan is a dict")
        unknown = sorted(str(name) for name in sections if name not in _KNOWN)
        if unknown:
            message = f"Sections unknown to the kernel: {', '.join(unknown)}"
            yield failed("unknown_sections", message, "warning")
        if "session" in sections:
            yield passed("session_present", "Section 'session' is present")
            yield from self._check_session(sections["session"])
        else:
            yield failed("session_present", "Mount plan is missing its section 'session'")
        for name in _ESSENTIAL:
            if name in sections:
                yield from _check_settings(name, sections[name])
        for name in _LISTS:
            if name in sections:
                yield from self._check_list(name, sections[name])

    def _check_session(self, section: Any) -> Iterator[ValidationCheck]:
        session = _as_dict(section)
        if session is None:
            yield failed("session_type", f"session must be a dict, got {_type(section)}")
            return
        yield passed("session_type", "session is a dict")
        for name in _ESSENTIAL:
            check = f"session_{name}_present"
            if name not in session:
                yield failed(check, f"session is missing its field '{name}'; {_EXPECTED}")
                continue
            yield passed(check, f"session.{name} is present")
            spec = session[name]
            yield from self._check_spec(f"session.{name}", spec, short_form=self._allow_short_form)

    def _check_list(self, name: str, entries: Any) -> Iterator[ValidationCheck]:
        if not isinstance(entries, list):
            yield failed(f"{name}_type", f"{name} must be a list, got {_type(entries)}")
            return
        yield passed(f"{name}_type", f"{name} is a list")
        specs = cast("list[Any]", entries)
        if not specs:
            yield passed(f"{name}_empty", f"{name} is empty")
        for index, spec in enumerate(specs):
            yield from self._check_spec(f"{name}[{index}]", spec)
        if name == "providers":
            yield from _check_instances(specs)

    def _check_spec(
        self, path: str, spec: Any, *, short_form: bool = False
    ) -> Iterator[ValidationCheck]:
        if isinstance(spec, str) and short_form:
            yield from _check_module(path, spec)
            return
        fields = _as_dict(spec)
        if fields is None:
            yield failed(f"{path}_type", f"{path} must be a dict, got {_type(spec)}; {_EXPECTED}")
            return
        yield passed(f"{path}_type", f"{path} is a dict")
        if "module" in fields:
            yield from _check_module(path, fields["module"])
        else:
            message = f"{path} is missing its field 'module'; {_EXPECTED}"
            yield failed(f"{path}_module_required", message)
        for name, (types, words) in _FIELDS.items():
            if name in fields and not isinstance(fields[name], types):
                message = f"{path}.{name} must be {words}, got {_type(fields[name])}"
                yield failed(f"{path}_{name}_type", message)


def _check_module(path: str, module: Any) -> Iterator[ValidationCheck]:
    if not isinstance(module, str):
        message = f"{path}.module must be a string, got {_type(module)}"
        yield failed(f"{path}_module_type", message)
    elif not module.strip():
        yield failed(f"{path}_module_empty", f"{path}.module must not be empty")
    else:
        yield passed(f"{path}_module_valid", f"{path} names '{module}'")


def _check_settings(name: str, section: Any) -> Iterator[ValidationCheck]:
    """Check the section with the config of a module named by the short form."""
    settings = _as_dict(section)
    if settings is None:
        yield failed(f"{name}_type", f"{name} must be a dict, got {_type(section)}")
        return
    yield passed(f"{name}_type", f"{name} is a dict")
    config = settings.get("config")
    if not isinstance(config, dict | None):
        yield failed(f"{name}_config_type", f"{name}.config must be a dict, got {_type(config)}")


def _check_instances(specs: list[Any]) -> Iterator[ValidationCheck]:
    """Check that two entries of one provider can be distinguished."""
    entries = [entry for spec in specs if (entry := _as_dict(spec)) is not None]
    names = Counter(str(entry.get("instance_id") or entry.get("module")) for entry in entries)
    for name, count in names.items():
        if count > 1:
            message = f"Provider '{name}' is listed {count} times; give each its own instance_id"
            yield failed("providers_instance_id", message)


def _as_dict(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _type(value: Any) -> str:
    return type(value).__name__
