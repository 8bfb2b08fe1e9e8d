"""Errors of the foundation; each says what happened, why, and what to do next."""

from __future__ import annotations

from amplifier_kit.explained_error import ExplainedError

__all__ = [
    "BundleError",
    "FoundationError",
    "GuardError",
    "MissingBundleError",
    "NoProviderError",
    "PlanError",
    "SessionStoreError",
    "SettingsError",
    "SourceError",
    "TrustError",
]


class FoundationError(ExplainedError):
    """The root of the errors of this package."""

    # Whether something is absent, as opposed to present and refused. Only an absent part of a
    # bundle is left out with a warning: leaving out a refused one would lose its guards.
    is_missing = False


class SettingsError(FoundationError):
    """A settings or credentials file cannot be used as it is."""

    exit_code = 2


class TrustError(FoundationError):
    """Something from a project folder was about to act without a recorded decision."""

    exit_code = 3


class BundleError(FoundationError):
    """A bundle cannot be found, read or composed."""

    exit_code = 2


class MissingBundleError(BundleError):
    """A bundle, or a file that a bundle names, does not exist."""

    is_missing = True


class NoProviderError(FoundationError):
    """None of the providers of a plan was mounted, so that no model can answer."""

    exit_code = 5


class PlanError(FoundationError):
    """A mount plan does not have the shape of one; `path` is the place of the wrong value."""

    exit_code = 2

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"The mount plan is wrong at `{path}`.", why=why, fix="correct the plan")
        self.path = path


class GuardError(FoundationError):
    """A hook that protects the user did not mount, failed, or was about to be replaced unnamed."""

    exit_code = 3


class SourceError(FoundationError):
    """A module cannot be fetched, or is not what was pinned."""


class SessionStoreError(FoundationError):
    """A session on disk cannot be opened, read or written."""
