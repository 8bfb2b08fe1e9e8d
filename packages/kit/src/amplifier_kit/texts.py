"""Reading and shortening the texts of a message, without changing the message itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

_NOTE = "\n[... {} characters left out ...]\n"
_NOTE_LENGTH = len(_NOTE) + 12

# No text is cut to less, so that the note and a few words fit.
SHORTEST = 64

# The fields with text in a content block. Calls, thinking, images and other typed blocks stay as
# they are: a vendor accepts them back unchanged or not at all.
_TEXT_FIELDS = {"text": ("text",), "tool_result": ("output", "content")}


def shorten(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters: its head, a note, its tail."""
    if len(text) <= limit:
        return text
    kept = limit - _NOTE_LENGTH
    tail = kept // 3
    return text[: kept - tail] + _NOTE.format(len(text) - kept) + text[len(text) - tail :]


def texts_in(content: Any) -> list[str]:
    """Return every text of a message's content that `edit_texts` would edit."""
    texts: list[str] = []
    edit_texts(content, lambda text: texts.append(text) or text)
    return texts


def text_of_prompt(prompt: str | list[dict[str, Any]]) -> str:
    """Return the text of a prompt, which may be blocks of content."""
    return prompt if isinstance(prompt, str) else "\n".join(texts_in(prompt))


def edit_texts(content: Any, edit: Callable[[str], str]) -> Any:
    """Return a copy of `content` with `edit` applied to each of its texts."""
    if isinstance(content, str):
        return edit(content)
    if isinstance(content, list):
        return [edit_texts(each, edit) for each in cast("list[Any]", content)]
    if isinstance(content, dict):
        fields = cast("dict[str, Any]", content)
        if "type" in fields:
            keys = _TEXT_FIELDS.get(str(fields["type"]), ())
        else:
            keys = (*fields,)
        return {**fields, **{key: edit_texts(fields[key], edit) for key in keys if key in fields}}
    return content
