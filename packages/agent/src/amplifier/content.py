"""What a prompt can have beside text."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Image", "Prompt", "content_of"]


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the model to look at."""

    data: bytes
    media_type: str = "image/png"

    def block(self) -> dict[str, Any]:
        """Return it as a content block of a message."""
        data = base64.b64encode(self.data).decode("ascii")
        source = {"type": "base64", "media_type": self.media_type, "data": data}
        return {"type": "image", "source": source}


Prompt: TypeAlias = str | Sequence[str | Image]
"""A text, or texts and images in the order in which the model reads them."""


def content_of(prompt: Prompt) -> str | list[dict[str, Any]]:
    """Return the content of the message that a prompt becomes."""
    if isinstance(prompt, str):
        return prompt
    return [
        {"type": "text", "text": each} if isinstance(each, str) else each.block() for each in prompt
    ]
