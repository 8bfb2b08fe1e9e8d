"""Messages for the model about files that cannot be read or changed."""

from __future__ import annotations

from pydantic import ValidationError

from amplifier_kit.tools import problems_in
from amplifier_module_files.edits import NoMatchError
from amplifier_sandbox.files.names import RefusedError

# Exceptions that a file tool reports as a failed result.
FAILURES = (ValidationError, RefusedError, NoMatchError, OSError)


def failure_text(error: Exception) -> str:
    """Return what went wrong, and what to do about it."""
    if isinstance(error, ValidationError):
        return f"The input does not fit: {problems_in(error)}."
    if isinstance(error, FileNotFoundError):
        return "There is no such file or folder. List the folder above it to see."
    if isinstance(error, OSError):
        return f"The file system says: {error.strerror or error}."
    return str(error)
