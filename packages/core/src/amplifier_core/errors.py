"""Every error the kernel raises.

AmplifierError
├── ModuleError                 module_id, reason_code
│   ├── ModuleNotFoundError     tried; also a ValueError
│   └── ModuleLoadError         also a ValueError
│       └── ModuleValidationError
├── MountError                  mount_point; also a ValueError
└── SessionError                session_id; also a RuntimeError
    └── NotInitializedError

The built-in parents are what callers of the public contracts already catch. Everything but the
message is optional, so that a module may raise any of these with a sentence alone. Provider
failures have their own tree in `llm_errors`.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "MODULE_FAILURE_REASONS",
    "AmplifierError",
    "ModuleError",
    "ModuleLoadError",
    "ModuleNotFoundError",
    "ModuleValidationError",
    "MountError",
    "NotInitializedError",
    "SessionError",
    "describe_error",
    "error_text",
    "module_failure_reason",
]

MODULE_FAILURE_REASONS = frozenset(
    {
        "invalid_package_layout",
        "missing_source",
        "invalid_entry_point",
        "invalid_module_metadata",
        "validation_failed",
        "unknown",
    }
)


class AmplifierError(Exception):
    """The base of all errors that the kernel raises on purpose."""


class ModuleError(AmplifierError):
    """A module cannot be used.

    `reason_code` is the short, stable word for the cause that `module:load_failed` carries.
    """

    def __init__(
        self, message: str, *, module_id: str | None = None, reason_code: str = "unknown"
    ) -> None:
        super().__init__(message)
        self.module_id = module_id
        self.reason_code = reason_code


class ModuleNotFoundError(ModuleError, ValueError):  # noqa: A001 - fixed by the source contract
    """No source has this module; `tried` names the places that were searched."""

    def __init__(
        self,
        message: str,
        *,
        module_id: str | None = None,
        reason_code: str = "missing_source",
        tried: Iterable[str] = (),
    ) -> None:
        super().__init__(message, module_id=module_id, reason_code=reason_code)
        self.tried: tuple[str, ...] = tuple(tried)


class ModuleLoadError(ModuleError, ValueError):
    """The module was found, but its code cannot be loaded."""


class ModuleValidationError(ModuleLoadError):
    """The module was loaded, but breaks the contract of its kind."""

    def __init__(
        self,
        message: str,
        *,
        module_id: str | None = None,
        reason_code: str = "validation_failed",
    ) -> None:
        super().__init__(message, module_id=module_id, reason_code=reason_code)


class MountError(AmplifierError, ValueError):
    """An object cannot be mounted, read or removed at this mount point."""

    def __init__(self, message: str, *, mount_point: str | None = None) -> None:
        super().__init__(message)
        self.mount_point = mount_point


class SessionError(AmplifierError, RuntimeError):
    """A session cannot do what it was asked."""

    def __init__(self, message: str, *, session_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id


class NotInitializedError(SessionError):
    """The session was used before `initialize()` succeeded."""

    def __init__(
        self,
        message: str = "Session not initialized. Call initialize() first.",
        *,
        session_id: str | None = None,
    ) -> None:
        super().__init__(message, session_id=session_id)


def error_text(error: BaseException) -> str:
    """Return an error's message, or its repr when the message cannot be printed."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the error's own __str__ is broken; its repr may work
        return repr(error)


def module_failure_reason(error: BaseException) -> str:
    """Return the short word for why a module failed, one of `MODULE_FAILURE_REASONS`."""
    return error.reason_code if isinstance(error, ModuleError) else "unknown"


def describe_error(error: BaseException) -> str:
    """Return an error's type and message."""
    message = error_text(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
