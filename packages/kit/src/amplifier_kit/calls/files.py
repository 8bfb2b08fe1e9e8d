"""Files in a prompt: image blocks whose data is not an image, such as a PDF.

The kernel's vocabulary has no block for files; docs/decisions/files.md says why it is this one.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple, cast

from amplifier_core.llm_errors import InvalidRequestError

__all__ = ["AttachedFile", "attached_file"]

PDF = "application/pdf"
# Types of text that are not `text/...`.
_TEXTS = ("application/json", "application/xml", "application/yaml")


class AttachedFile(NamedTuple):
    """A file that a message has beside its text; `data` is base64."""

    name: str
    media_type: str
    data: str

    @property
    def is_pdf(self) -> bool:
        """Whether it is a PDF."""
        return self.media_type == PDF

    @property
    def is_text(self) -> bool:
        """Whether a model can read it as text."""
        return self.media_type.startswith("text/") or self.media_type in _TEXTS

    @property
    def url(self) -> str:
        """The file as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"

    def text(self, provider: str) -> str:
        """Return the text of a text file.

        Raises:
            InvalidRequestError: it is not UTF-8.
        """
        try:
            return base64.b64decode(self.data, validate=True).decode("utf-8-sig")
        except (binascii.Error, UnicodeDecodeError):
            message = f"The file `{self.name}` ({self.media_type}) is not UTF-8 text."
            raise InvalidRequestError(message, provider=provider) from None

    def named_text(self, provider: str) -> str:
        """Return the text of a text file in tags with its name, for vendors without such a field.

        Raises:
            InvalidRequestError: it is not UTF-8.
        """
        name = self.name.replace('"', "'")
        return f'<file name="{name}">\n{self.text(provider)}\n</file>'

    def refusal(self, provider: str, taken: str = "PDF and text files") -> InvalidRequestError:
        """Return the error for a file that a vendor does not take; `taken` is what it does."""
        message = (
            f"The file `{self.name}` has the type {self.media_type}.\n"
            f"The provider `{provider}` takes {taken}.\n"
            "Convert the file, or use another provider."
        )
        return InvalidRequestError(message, provider=provider)


def attached_file(source: Any) -> AttachedFile | None:
    """Return the file that the `source` of an image block has; None if it is an image."""
    fields = cast("dict[str, Any]", source) if isinstance(source, dict) else {}
    media_type = fields.get("media_type")
    data = fields.get("data")
    if fields.get("type") != "base64" or not isinstance(data, str):
        return None
    if not isinstance(media_type, str) or media_type.startswith("image/"):
        return None
    return AttachedFile(str(fields.get("name") or "file"), media_type, data)
