"""The validator of providers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amplifier_core.errors import describe_error
from amplifier_core.models import ProviderInfo
from amplifier_core.validation.base import (
    ModuleValidator,
    ValidationCheck,
    check_coroutine_method,
    check_name,
    failed,
    passed,
)

__all__ = ["ProviderValidator"]


class ProviderValidator(ModuleValidator):
    """Validates a module that mounts providers."""

    module_type = "provider"
    protocol_name = "Provider"
    thing = "provider"

    def inspect(self, instance: Any) -> Iterator[ValidationCheck]:
        """Check one provider."""
        yield check_name("provider_name", instance)
        yield _check_get_info(instance)
        yield check_coroutine_method("provider_list_models", instance, "list_models")
        yield check_coroutine_method("provider_complete", instance, "complete", 1)
        if callable(getattr(instance, "parse_tool_calls", None)):
            yield passed("provider_parse_tool_calls", "parse_tool_calls() found")
        else:
            yield failed("provider_parse_tool_calls", "parse_tool_calls() is missing")


def _check_get_info(instance: Any) -> ValidationCheck:
    name = "provider_get_info"
    get_info = getattr(instance, "get_info", None)
    if not callable(get_info):
        return failed(name, "get_info() is missing")
    try:
        info = get_info()
    except Exception as error:  # noqa: BLE001 - whatever a module's code raises is the finding
        return failed(name, f"get_info() raised {describe_error(error)}", "warning")
    if isinstance(info, ProviderInfo):
        return passed(name, "get_info() returns a ProviderInfo")
    return failed(name, f"get_info() must return a ProviderInfo, not {type(info).__name__}")
