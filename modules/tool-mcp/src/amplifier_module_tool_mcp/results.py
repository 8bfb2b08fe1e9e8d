"""What a server answers, as the result of a tool call: bounded, and marked as not to be trusted."""

from __future__ import annotations

import json
from typing import Any, cast

from pydantic import ValidationError

from amplifier_core.models import ToolResult
from amplifier_module_tool_mcp.errors import ServerFailure

_MOST_IMAGES = 10


def failure(error: ServerFailure) -> ToolResult:
    """Return the result of a call that came to nothing."""
    return ToolResult(success=False, error={"message": str(error), "type": error.kind})


def to_result(answer: dict[str, Any], server: str, most_chars: int) -> ToolResult:
    """Return a server's answer; `trusted: false` says whose words these are."""
    blocks = cast("list[dict[str, Any]]", answer.get("content") or [])
    images = [block for block in blocks if block["type"] == "image"]
    text = "\n".join(_text(block) for block in blocks if block["type"] != "image")
    output: dict[str, Any] = {"server": server, "trusted": False}
    structured = answer.get("structuredContent")
    if structured is not None:
        written = json.dumps(structured, ensure_ascii=False)
        output["structured"] = structured if len(written) <= most_chars else None
        if output["structured"] is None or not _says_the_same(text, structured):
            output["text"] = shortened(text or written, most_chars)
    else:
        output["text"] = shortened(text, most_chars)
    if len(images) > _MOST_IMAGES:
        output["images_left_out"] = len(images) - _MOST_IMAGES
    if answer.get("isError"):
        message = shortened(text, 2_000) or "The server reports an error and says nothing else."
        error = {"message": message, "type": "tool_error"}
        return ToolResult(success=False, output=output, error=error)
    return _with_images(output, images[:_MOST_IMAGES])


def shortened(text: str, most_chars: int) -> str:
    """Return the beginning and the end of a text that is too long, and say how much is missing."""
    missing = len(text) - most_chars
    if missing <= 0:
        return text
    half = most_chars // 2
    return f"{text[:half]}\n[{missing} of {len(text)} characters left out]\n{text[-half:]}"


def _text(block: dict[str, Any]) -> str:
    if block["type"] == "text":
        return block["text"]
    if block["type"] == "resource" and "text" in block["resource"]:
        return f"[{block['resource'].get('uri')}]\n{block['resource']['text']}"
    if block["type"] == "resource_link":
        return f"[link to {block.get('uri')}: {block.get('name')}]"
    return f"[{block['type']} left out: it cannot be shown to the model]"


def _says_the_same(text: str, structured: Any) -> bool:
    try:
        return not text or json.loads(text) == structured
    except ValueError:
        return False


def _with_images(output: dict[str, Any], images: list[dict[str, Any]]) -> ToolResult:
    if not images:
        return ToolResult(success=True, output=output)
    content: list[Any] = [{"type": "text", "text": json.dumps(output, ensure_ascii=False)}]
    for image in images:
        source = {"type": "base64", "media_type": image["mimeType"], "data": image["data"]}
        content.append({"type": "image", "source": source})
    try:
        return ToolResult(success=True, output=output, content=content)
    except ValidationError:
        return ToolResult(success=True, output={**output, "images_left_out": len(images)})
