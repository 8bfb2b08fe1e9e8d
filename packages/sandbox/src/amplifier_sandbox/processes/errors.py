"""The one error of the sandbox."""

from __future__ import annotations


class SandboxError(Exception):
    """A program cannot be contained as asked; it was not started."""
