"""Files as text."""

from __future__ import annotations

from amplifier_sandbox.files.errors import RefusedError
from amplifier_sandbox.files.names import shown


def decoded(path: str, data: bytes) -> str:
    """Return a file's text; raise RefusedError when it is none."""
    if b"\0" in data:
        raise RefusedError("kind", f"`{shown(path)}` is a binary file of {len(data):,} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(
            "kind",
            f"`{shown(path)}` is not UTF-8: byte {error.start:,} is 0x{data[error.start]:02x}. "
            "These tools read and write UTF-8 only.",
        ) from error
