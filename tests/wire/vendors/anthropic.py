"""The Messages API, Anthropic's format for Claude."""

from __future__ import annotations

import json
from typing import Any

from wire.vendor import (
    COUNTED,
    Answer,
    Block,
    Counts,
    Feature,
    RedactedThinking,
    Refuse,
    Said,
    SentCall,
    SentResult,
    SentTool,
    Text,
    Thinking,
    ToolUse,
    fragments,
    pieces,
)

_STOP_REASON = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "filter": "refusal",
}
_ERRORS = {
    "invalid": "invalid_request_error",
    "auth": "authentication_error",
    "denied": "permission_error",
    "not_found": "not_found_error",
    "too_long": "invalid_request_error",
    "rate_limit": "rate_limit_error",
    "quota": "rate_limit_error",
    "overloaded": "overloaded_error",
    "server": "api_error",
}
_CHOICES = {"auto": "auto", "none": "none", "any": "required"}


class Anthropic:
    """The format of `POST /v1/messages`."""

    id = "anthropic"
    module_id = "provider-anthropic"
    sdk = "anthropic"
    key_variables: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
    features: frozenset[Feature] = frozenset(
        {
            "thinking", "signature", "redacted", "argument_text", "image_urls",
            "tool_result_images", "count_tokens", "cache_write", "reasoning_tokens", "stop",
            "priced", "early_usage",
        }
    )  # fmt: skip
    model = "claude-sonnet-5-5"
    # The reason and the usage, then `message_stop`.
    terminal_events = 2

    def config(self, base_url: str) -> dict[str, Any]:
        return {"base_url": base_url, "api_key": "a-key-for-tests", "default_model": self.model}

    def is_generation(self, method: str, path: str) -> bool:
        return (method, path) == ("POST", "/v1/messages")

    def wants_stream(self, path: str, body: dict[str, Any]) -> bool:
        return body.get("stream") is True

    def stream(self, answer: Answer, body: dict[str, Any]) -> list[bytes]:
        begun: dict[str, Any] = {
            **_message(body),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        begun["usage"] = {**_usage(answer.usage), "output_tokens": 1}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(answer.blocks):
            start, deltas = _in_pieces(block)
            events.append({"type": "content_block_start", "index": index, "content_block": start})
            if index == 0:
                events.append({"type": "ping"})
            events += [
                {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
            ]
            events.append({"type": "content_block_stop", "index": index})
        ending = {"delta": _ending(answer), "usage": _usage(answer.usage)}
        events += [{"type": "message_delta", **ending}, {"type": "message_stop"}]
        return [_frame(event) for event in events]

    def body(self, answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
        content = [_whole(block) for block in answer.blocks]
        return {
            **_message(body), "content": content, **_ending(answer), "usage": _usage(answer.usage),
        }  # fmt: skip

    def error(self, refuse: Refuse) -> dict[str, Any]:
        error: dict[str, Any] = {"type": _ERRORS[refuse.kind], "message": refuse.message}
        if refuse.kind == "too_long":
            error["message"] = f"prompt is too long: 1000001 tokens > 1000000; {refuse.message}"
        if refuse.kind == "quota":
            error["details"] = {"error_code": "enforced_spend_limit_reached"}
        return {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}

    def error_event(self, refuse: Refuse) -> bytes:
        return _frame(self.error(refuse))

    def side_route(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        if (method, path) == ("POST", "/v1/messages/count_tokens"):
            return {"input_tokens": COUNTED}
        if (method, path) != ("GET", "/v1/models"):
            return None
        limits = {"max_input_tokens": 1_000_000, "max_tokens": 128_000}
        facts = {"created_at": "2026-09-29T00:00:00Z", "lifecycle": "active", **limits}
        models = [
            {"type": "model", "id": name, "display_name": name.title(), **facts}
            for name in (self.model, "second-model")
        ]
        ends = {"first_id": models[0]["id"], "last_id": models[-1]["id"]}
        return {"data": models, "has_more": False, **ends}

    def sent_model(self, path: str, body: dict[str, Any]) -> str:
        return body["model"]

    def sent_texts(self, body: dict[str, Any]) -> list[Said]:
        return [Said(role, block["text"]) for role, block in _sent(body, "text")]

    def sent_system(self, body: dict[str, Any]) -> str:
        return "\n".join(block["text"] for block in body.get("system", ()))

    def sent_tools(self, body: dict[str, Any]) -> list[SentTool]:
        return [
            SentTool(tool["name"], tool.get("description"), tool["input_schema"])
            for tool in body.get("tools", ())
        ]

    def sent_tool_calls(self, body: dict[str, Any]) -> list[SentCall]:
        return [
            SentCall(block["id"], block["name"], block["input"])
            for _, block in _sent(body, "tool_use")
        ]

    def sent_tool_results(self, body: dict[str, Any]) -> list[SentResult]:
        results: list[SentResult] = []
        for _, block in _sent(body, "tool_result"):
            content: Any = block.get("content", "")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            text = "".join(part["text"] for part in parts if part["type"] == "text")
            images = [_pixels(part) for part in parts if part["type"] == "image"]
            results.append(SentResult(block["tool_use_id"], text, images))
        return results

    def sent_images(self, body: dict[str, Any]) -> list[str]:
        return [_pixels(block) for _, block in _sent(body, "image")]

    def sent_files(self, body: dict[str, Any]) -> list[str]:
        sources = [block["source"] for _, block in _sent(body, "document")]
        return [source["data"] for source in sources if source["type"] == "base64"]

    def sent_checked_fields(self, body: dict[str, Any]) -> list[str]:
        fields = {
            "thinking": ("thinking", "signature"),
            "redacted_thinking": ("data",),
            "tool_use": ("id",),
            "tool_result": ("tool_use_id",),
        }
        return [block[name] for _, block in _sent(body, *fields) for name in fields[block["type"]]]

    def checked_fields(self, answer: Answer) -> list[str]:
        fields: list[str] = []
        for block in answer.blocks:
            if isinstance(block, Thinking):
                fields += [block.text, block.signature]
            elif isinstance(block, RedactedThinking):
                fields.append(block.data)
            elif isinstance(block, ToolUse):
                fields.append(block.id)
        return fields + [block.id for block in answer.blocks if isinstance(block, ToolUse)]

    def sent_schema(self, body: dict[str, Any]) -> dict[str, Any] | None:
        return body.get("output_config", {}).get("format", {}).get("schema")

    def sent_max_tokens(self, body: dict[str, Any]) -> int | None:
        return body["max_tokens"]

    def sent_temperature(self, body: dict[str, Any]) -> float | None:
        return body.get("temperature")

    def sent_stop(self, body: dict[str, Any]) -> list[str]:
        return body.get("stop_sequences", [])

    def sent_tool_choice(self, body: dict[str, Any]) -> str | None:
        choice: Any = body.get("tool_choice")
        return None if choice is None else choice.get("name") or _CHOICES[choice["type"]]

    def sent_effort(self, body: dict[str, Any]) -> object:
        budget = body.get("thinking", {}).get("budget_tokens")
        return body.get("output_config", {}).get("effort", budget)

    def sent_prefix(self, body: dict[str, Any]) -> list[str]:
        parts = (*body.get("tools", ()), *body.get("system", ()), *body["messages"])
        return [json.dumps(_unmarked(part)) for part in parts]


def _frame(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _message(body: dict[str, Any]) -> dict[str, Any]:
    facts = {"id": "msg_014p7gG3wDgGV9EUtLvnow3U", "type": "message", "role": "assistant"}
    return {**facts, "model": body["model"]}


def _ending(answer: Answer) -> dict[str, Any]:
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    return {
        "stop_reason": _STOP_REASON[answer.finish],
        "stop_sequence": None,
        "stop_details": details if answer.finish == "filter" else None,
    }


def _usage(counts: Counts) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "input_tokens": counts.input - counts.cache_read - counts.cache_write,
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "output_tokens": counts.output,
        "service_tier": "standard",
    }
    if counts.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": counts.reasoning}
    return usage


def _whole(block: Block) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case RedactedThinking(data):
            return {"type": "redacted_thinking", "data": data}
        case ToolUse(call_id, name, arguments):
            call = {"type": "tool_use", "id": call_id, "name": name}
            return {**call, "input": json.loads(arguments or "{}")}


def _in_pieces(block: Block) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return how a block begins, and the deltas that follow."""
    match block:
        case Text(text):
            deltas = [{"type": "text_delta", "text": each} for each in fragments(text)]
            return _whole(Text("")), deltas
        case Thinking(text, signature):
            deltas = [{"type": "thinking_delta", "thinking": each} for each in fragments(text)]
            deltas.append({"type": "signature_delta", "signature": signature})
            return _whole(Thinking("")), deltas
        case RedactedThinking():
            return _whole(block), []
        case ToolUse(call_id, name, arguments):
            texts = ["", *pieces(arguments)]
            deltas = [{"type": "input_json_delta", "partial_json": each} for each in texts]
            return _whole(ToolUse(call_id, name)), deltas


def _sent(body: dict[str, Any], *kinds: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the blocks of these kinds in the conversation, each with its role."""
    found: list[tuple[str, dict[str, Any]]] = []
    for message in body["messages"]:
        content: Any = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [(message["role"], block) for block in blocks if block["type"] in kinds]
    return found


def _pixels(image: dict[str, Any]) -> str:
    source: dict[str, str] = image["source"]
    return source["url"] if source["type"] == "url" else source["data"]


def _unmarked(value: Any) -> Any:
    """Return a part of a request without the cache's marks, which move from call to call."""
    if isinstance(value, dict):
        return {key: _unmarked(each) for key, each in value.items() if key != "cache_control"}  # pyright: ignore[reportUnknownVariableType] - JSON
    return [_unmarked(each) for each in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType] - JSON
