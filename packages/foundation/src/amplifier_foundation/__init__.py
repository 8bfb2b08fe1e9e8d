"""What every app needs around the kernel: bundles, sources, settings, sessions on disk, replay.

Importing it checks that the installed kernel is ours. Another distribution has the same name, pip
and uv replace ours with it without asking, and most of the foundation would then fail far from the
cause.

The names in `__all__` are those that published modules import from here. Each is loaded when it is
first asked for, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from amplifier_foundation.installation import refuse_foreign_kernel

if TYPE_CHECKING:
    from amplifier_foundation.spawn_utils import (
        ModelResolutionResult,
        ProviderPreference,
        apply_provider_preferences,
        apply_provider_preferences_with_resolution,
        is_glob_pattern,
        resolve_model_pattern,
    )
    from amplifier_foundation.tracing import generate_sub_session_id

__version__ = "0.2.0"

__all__ = [
    "ModelResolutionResult",
    "ProviderPreference",
    "apply_provider_preferences",
    "apply_provider_preferences_with_resolution",
    "generate_sub_session_id",
    "is_glob_pattern",
    "resolve_model_pattern",
]

refuse_foreign_kernel(__version__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "generate_sub_session_id":
        home = "tracing"
    else:
        home = "spawn_utils"
    value = getattr(importlib.import_module(f"amplifier_foundation.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
