"""What a prompt can have beside text."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["File", "Image", "Prompt", "content_of"]


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the model to look at."""

    data: bytes
    media_type: str = "image/png"

    def block(self) -> dict[str, Any]:
        """Return it as a content block of a message."""
        return _block(self.data, self.media_type)


@dataclass(frozen=True, slots=True)
class File:
    """A document for the model to read: a PDF, a text, or what else its vendor takes."""

    data: bytes
    media_type: str = "application/pdf"
    name: str = "file"

    @classmethod
    def read(cls, path: str | Path, media_type: str | None = None) -> File:
        """Read a file; without a `media_type`, its name says what it is.

        Raises:
            ValueError: its name does not say it.
            OSError: it cannot be read.
        """
        path = Path(path)
        media_type = media_type or mimetypes.guess_type(path.name)[0]
        if media_type is None:
            raise ValueError(f"The type of `{path.name}` is not known: give its `media_type`.")
        return cls(path.read_bytes(), media_type, path.name)

    def block(self) -> dict[str, Any]:
        """Return it as a content block of a message."""
        # An image block: docs/decisions/files.md.
        return _block(self.data, self.media_type, name=self.name)


Prompt: TypeAlias = str | Sequence[str | Image | File]
"""A text, or texts, images and files in the order in which the model reads them."""


def content_of(prompt: Prompt) -> str | list[dict[str, Any]]:
    """Return the content of the message that a prompt becomes."""
    if isinstance(prompt, str):
        return prompt
    return [
        {"type": "text", "text": each} if isinstance(each, str) else each.block() for each in prompt
    ]


def _block(data: bytes, media_type: str, **fields: str) -> dict[str, Any]:
    encoded = base64.b64encode(data).decode("ascii")
    source = {"type": "base64", "media_type": media_type, "data": encoded, **fields}
    return {"type": "image", "source": source}
