"""From a finished response of the API to a ChatResponse."""

from __future__ import annotations

from typing import Any

from amplifier_core.llm_errors import ContentFilterError, StreamError
from amplifier_core.message_models import (
    ChatResponse,
    ContentBlockUnion,
    ReasoningBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
)
from amplifier_kit.calls.messages import expected, parse_arguments
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_module_provider_openai.failures import PROVIDER, reported_error

# Why an answer is incomplete, in the words that all providers share.
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def chat_response(
    response: dict[str, Any], *, model: str, origin: str, limit: int | None = None
) -> ChatResponse:
    """Return what the model answered; `limit` is the number of tokens it was allowed.

    Raises:
        ContentFilterError: there is nothing but a refusal, or the vendor's filter left nothing.
        LLMError: the response failed, or has not come to its end.
    """
    status = response.get("status")
    if status == "failed":
        raise reported_error(response.get("error"), model)
    if status not in ("completed", "incomplete"):
        message = f"the answer ended before its end: its status is `{status}`"
        raise StreamError(message, provider=PROVIDER, model=model)
    details: dict[str, Any] = response.get("incomplete_details") or {}
    usage = usage_of(response.get("usage"))
    # Not every server says so when it stops at the limit.
    cut_off = status == "incomplete" or bool(limit and usage and usage.output_tokens >= limit)
    cause: str = details.get("reason") or ("max_output_tokens" if cut_off else "")
    content: list[ContentBlockUnion] = []
    for item in expected(response.get("output"), list, "output") or ():
        content += _blocks(item, origin, cut_off=cut_off)
    _raise_refusal(content, cause, model)
    calls = calls_in_response(ChatResponse(content=content))
    finish = _FINISH.get(cause, "length") if cause else "tool_calls" if calls else "stop"
    facts = {"response_id": response.get("id"), "model": response.get("model")}
    return ChatResponse(
        content=content,
        tool_calls=calls or None,
        usage=usage,
        finish_reason=finish,
        metadata={**facts, "finish_reason": details.get("reason") or status},
    )


def _blocks(item: dict[str, Any], origin: str, *, cut_off: bool) -> list[ContentBlockUnion]:
    """Return the blocks of one item; what only the `origin` can read again is marked with it."""
    mark: dict[str, Any] = {"origin": origin}
    match item["type"]:
        case "message":
            return [_text(part, item.get("phase"), mark) for part in _parts(item)]
        case "function_call":
            # An incomplete call whose arguments had not begun would pass for one without any.
            raw = item.get("arguments") or ("{" if item.get("status") == "incomplete" else "")
            arguments = parse_arguments(raw, cut_off=cut_off)
            return [ToolCallBlock(id=item["call_id"], name=item["name"], input=arguments)]
        case "reasoning":
            parts = item.get("summary") or item.get("content") or ()
            thinking = "\n\n".join(part["text"] for part in parts)
            return [ThinkingBlock(thinking=thinking, content=[item], **mark)]
        case _:
            # What the vendor's own tools did: nothing to show, but part of the conversation.
            return [ReasoningBlock(content=[item], summary=[], **mark)]


def _parts(item: dict[str, Any]) -> list[Any]:
    return expected(item.get("content"), list, "content") or []


def _text(part: dict[str, Any], phase: str | None, mark: dict[str, Any]) -> TextBlock:
    facts = {"phase": phase, "annotations": part.get("annotations"), "refusal": part.get("refusal")}
    extra = {key: value for key, value in facts.items() if value}
    text = expected(part.get("text"), str, "text") or part.get("refusal") or ""
    if extra:
        return TextBlock(text=text, **extra, **mark)
    return TextBlock(text=text)


def _raise_refusal(content: list[ContentBlockUnion], cause: str, model: str) -> None:
    """Raise when the answer is nothing but a refusal, or nothing because of the vendor's filter."""
    shown = [block for block in content if isinstance(block, TextBlock | ToolCallBlock)]
    refusals = [refusal for block in shown if (refusal := (block.model_extra or {}).get("refusal"))]
    if len(refusals) == len(shown) and (shown or cause == "content_filter"):
        message = " ".join(refusals) or "the vendor's content filter stopped the answer"
        raise ContentFilterError(message, provider=PROVIDER, model=model)


def usage_of(usage: dict[str, Any] | None) -> Usage | None:
    """Return the tokens that were counted; `input_tokens` includes the cached ones."""
    if not usage:
        return None
    read = usage.get("input_tokens", 0)
    written = usage.get("output_tokens", 0)
    details: dict[str, Any] = usage.get("input_tokens_details") or {}
    spent: dict[str, Any] = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=read,
        output_tokens=written,
        total_tokens=usage.get("total_tokens", read + written),
        reasoning_tokens=spent.get("reasoning_tokens"),
        cache_read_tokens=details.get("cached_tokens"),
        # Models that do not bill writes report 0 and cache all the same.
        cache_write_tokens=details.get("cache_write_tokens") or None,
    )
