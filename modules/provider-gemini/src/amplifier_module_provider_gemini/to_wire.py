"""Convert messages to Gemini's contents, with the parts, signatures and ids they came with."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterator
from typing import Any, NamedTuple

from amplifier_core.message_models import (
    ContentBlockUnion,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from amplifier_kit.calls.files import AttachedFile, attached_file
from amplifier_kit.calls.messages import (
    blocks_of,
    output_text,
    rich_output,
    stored_calls,
    text_of,
)
from amplifier_module_provider_gemini.failures import PROVIDER
from amplifier_module_provider_gemini.from_wire import MARK

Part = dict[str, Any]

# The vendor requires a signature on the first call of a step, and accepts this value for calls that
# it did not sign itself.
_NOT_SIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
_HEARD_AND_SEEN = ("audio/", "video/")


class Content(NamedTuple):
    """The wire form of one message; `lost` describes what cannot be sent."""

    role: str
    parts: list[Part]
    lost: tuple[str, ...] = ()


class Conversion:
    """Converts messages in order, because a result needs the name of the call before it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __call__(self, message: Message) -> Content:
        """Return the wire form of one message."""
        if message.role == "system":
            return Content("system", _texts(text_of(message)))
        if message.role == "assistant":
            self._names |= {call.id: call.name for call in stored_calls(message)}
            return Content("model", _model_parts(message))
        lost: list[str] = []
        if message.role in ("tool", "function"):
            parts = [self._result(message.tool_call_id or "", blocks_of(message), lost)]
        else:
            parts = [part for block in blocks_of(message) for part in self._user(block, lost)]
        if message.role == "developer":
            parts = [_in_tags("developer", part) for part in parts]
        return Content("user", parts, tuple(lost))

    def _user(self, block: ContentBlockUnion, lost: list[str]) -> list[Part]:
        if isinstance(block, ToolResultBlock):
            return [self._result(block.tool_call_id, [block], lost)]
        if isinstance(block, ImageBlock):
            return [_picture(block.source, lost)]
        if isinstance(block, TextBlock):
            return _texts(block.text)
        return []

    def _result(self, call_id: str, blocks: list[ContentBlockUnion], lost: list[str]) -> Part:
        inner = [
            part for block in blocks for each in _opened(block) for part in self._user(each, lost)
        ]
        texts = [part["text"] for part in inner if "text" in part]
        pictures = [part for part in inner if "text" not in part]
        result: dict[str, Any] = {"id": call_id, "name": self._names.get(call_id, "unknown")}
        result["response"] = {"output": "\n\n".join(texts)}
        return {"functionResponse": {**result, "parts": pictures} if pictures else result}


def assemble(
    contents: list[Content], *, pictures_in_results: bool
) -> tuple[list[Part], list[dict[str, Any]]]:
    """Return the system parts and the turns; a later system text becomes a user's, in place."""
    # Only leading system texts go to the system instruction: a later one would change the beginning
    # of the request, which the vendor caches.
    start = next((i for i, each in enumerate(contents) if each.role != "system"), len(contents))
    system = [part for each in contents[:start] for part in each.parts]
    turns: list[dict[str, Any]] = []
    for role, parts, _ in contents[start:]:
        if role == "system":
            role = "user"
            parts = [_in_tags("system", part) for part in parts]
        if not pictures_in_results:
            parts = [each for part in parts for each in _beside(part)]
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"] += parts
        elif parts:
            turns.append({"role": role, "parts": list(parts)})
    return system, turns


def _beside(part: Part) -> Iterator[Part]:
    """Yield a result without its pictures, then the pictures."""
    result: dict[str, Any] = part.get("functionResponse", {})
    pictures = result.get("parts", [])
    plain = {key: value for key, value in result.items() if key != "parts"}
    yield {"functionResponse": plain} if pictures else part
    yield from pictures


def _in_tags(tag: str, part: Part) -> Part:
    if "text" in part:
        return {"text": f"<{tag}>\n{part['text']}\n</{tag}>"}
    return part


def _texts(text: str) -> list[Part]:
    """Return a text as parts; the vendor refuses empty ones."""
    return [{"text": text}] if text else []


def _opened(block: ContentBlockUnion) -> list[Any]:
    """Return the blocks of a tool's output, or its text; other blocks unchanged."""
    if not isinstance(block, ToolResultBlock):
        return [block]
    return rich_output(block.output) or [TextBlock(text=output_text(block.output))]


def _picture(source: dict[str, Any], lost: list[str]) -> Part:
    """Return the part for a picture, or a text if it cannot be sent."""
    if file := attached_file(source):
        return _file(file)
    kind = source.get("type")
    media_type = source.get("media_type")
    url = source.get("url")
    if kind == "base64" and source.get("data"):
        return {"inlineData": {"mimeType": media_type or "image/png", "data": source["data"]}}
    if kind == "url" and url:
        guessed = mimetypes.guess_type(url.partition("?")[0])[0]
        return {"fileData": {"fileUri": url, "mimeType": media_type or guessed or "image/jpeg"}}
    lost.append(f"a picture from a source of type `{kind}`")
    return {"text": f"[A picture was here; its source, of type `{kind}`, cannot be sent.]"}


def _file(file: AttachedFile) -> Part:
    """Return the part for a file; raises `InvalidRequestError` if the vendor does not take it."""
    if file.is_text:
        return {"text": file.named_text(PROVIDER)}
    if file.is_pdf or file.media_type.startswith(_HEARD_AND_SEEN):
        return {"inlineData": {"mimeType": file.media_type, "data": file.data}}
    raise file.refusal(PROVIDER, "PDF, text, audio and video files")


def _model_parts(message: Message) -> list[Part]:
    blocks = blocks_of(message)
    in_blocks = {block.id for block in blocks if isinstance(block, ToolCallBlock)}
    beside = [call for call in stored_calls(message) if call.id not in in_blocks]
    others = [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in beside]
    parts = [part for block in [*blocks, *others] for part in _said(block)]
    for first in [part for part in parts if "functionCall" in part][:1]:
        first.setdefault("thoughtSignature", _NOT_SIGNED)
    return parts


def _said(block: ContentBlockUnion) -> list[Part]:
    """Return the parts that a block came from; reasoning of other vendors is left out."""
    mark: dict[str, Any] | None = (block.model_extra or {}).get(MARK)
    state = mark or {}
    if "part" in state:
        return [state["part"]]
    if isinstance(block, TextBlock):
        return list(_pieces(block.text, {}, state))
    if isinstance(block, ThinkingBlock) and mark is not None:
        return list(_pieces(block.thinking, {"thought": True}, state))
    signature = state.get("thought_signature")
    signed = {"thoughtSignature": signature} if signature else {}
    if isinstance(block, ToolCallBlock):
        call = {"id": block.id, "name": block.name, "args": block.input}
        return [{"functionCall": call, **signed}]
    if isinstance(block, ImageBlock):
        return [{**_picture(block.source, []), **signed}]
    return []


def _pieces(text: str, fields: Part, state: dict[str, Any]) -> Iterator[Part]:
    """Split a text into its signed and unsigned pieces."""
    place = 0
    for start, end, signature in state.get("signed", ()):
        if start > place:
            yield {"text": text[place:start], **fields}
        yield {"text": text[start:end], **fields, "thoughtSignature": signature}
        place = end
    if place < len(text):
        yield {"text": text[place:], **fields}
