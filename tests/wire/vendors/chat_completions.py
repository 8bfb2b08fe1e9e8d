"""Chat Completions, the format that OpenAI began and most other servers speak."""

from __future__ import annotations

import json
from typing import Any

from wire.vendor import (
    Answer,
    Block,
    Counts,
    Feature,
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

_FINISH = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "filter": "content_filter",
}
# kind: (type, code)
_ERRORS = {
    "invalid": ("invalid_request_error", None),
    "auth": ("invalid_request_error", "invalid_api_key"),
    "denied": ("invalid_request_error", "unsupported_country_region_territory"),
    "not_found": ("invalid_request_error", "model_not_found"),
    "too_long": ("invalid_request_error", "context_length_exceeded"),
    "rate_limit": ("requests", "rate_limit_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "overloaded": ("server_error", None),
    "server": ("server_error", None),
}


class ChatCompletions:
    """The format of `POST /v1/chat/completions`."""

    id = "chat-completions"
    module_id = "provider-chat-completions"
    sdk = "openai"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    features: frozenset[Feature] = frozenset(
        {"thinking", "argument_text", "image_urls", "reasoning_tokens", "stop", "comments"}
    )
    model = "gpt-4.1-mini"
    # The choice with its finish reason, the usage, and the `[DONE]`.
    terminal_events = 3

    def config(self, base_url: str) -> dict[str, Any]:
        return {
            "base_url": f"{base_url}/v1",
            "api_key": "a-key-for-tests",
            "default_model": self.model,
            # Only some servers of this format say it themselves.
            "context_window": 128_000,
        }

    def is_generation(self, method: str, path: str) -> bool:
        return (method, path) == ("POST", "/v1/chat/completions")

    def wants_stream(self, path: str, body: dict[str, Any]) -> bool:
        return body.get("stream") is True

    def stream(self, answer: Answer, body: dict[str, Any]) -> list[bytes]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
        calls = 0
        for block in answer.blocks:
            deltas.extend(_deltas(block, calls))
            calls += isinstance(block, ToolUse)
        finish = _FINISH[answer.finish]
        chunks = [_chunk(body, [_choice(delta=delta)]) for delta in deltas]
        chunks.append(_chunk(body, [_choice(finish, delta={})]))
        if body.get("stream_options", {}).get("include_usage"):
            chunks.append({**_chunk(body, []), "usage": _usage(answer.usage)})
        return [*map(_frame, chunks), b"data: [DONE]\n\n"]

    def body(self, answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
        texts = [block.text for block in answer.blocks if isinstance(block, Text)]
        thoughts = [block.text for block in answer.blocks if isinstance(block, Thinking)]
        calls = [_call(block) for block in answer.blocks if isinstance(block, ToolUse)]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
        message |= {"refusal": None, "annotations": []}
        if thoughts:
            message["reasoning_content"] = "".join(thoughts)
        if calls:
            message["tool_calls"] = calls
        return {
            **_head(body, "chat.completion"),
            "choices": [_choice(_FINISH[answer.finish], message=message)],
            "usage": _usage(answer.usage),
        }

    def error(self, refuse: Refuse) -> dict[str, Any]:
        kind, code = _ERRORS[refuse.kind]
        return {"error": {"message": refuse.message, "type": kind, "param": None, "code": code}}

    def error_event(self, refuse: Refuse) -> bytes:
        return _frame(self.error(refuse))

    def side_route(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        if (method, path) != ("GET", "/v1/models"):
            return None
        facts = {"object": "model", "created": 1_744_316_542, "owned_by": "system"}
        return {
            "object": "list",
            "data": [{"id": name, **facts} for name in (self.model, "second-model")],
        }

    def sent_model(self, path: str, body: dict[str, Any]) -> str:
        return body["model"]

    def sent_texts(self, body: dict[str, Any]) -> list[Said]:
        return [
            Said(message["role"], part["text"])
            for message in body["messages"]
            if message["role"] in ("user", "assistant", "developer")
            for part in _parts(message)
            if part["type"] == "text"
        ]

    def sent_system(self, body: dict[str, Any]) -> str:
        return "\n".join(
            part["text"]
            for message in body["messages"]
            if message["role"] == "system"
            for part in _parts(message)
        )

    def sent_tools(self, body: dict[str, Any]) -> list[SentTool]:
        functions = [tool["function"] for tool in body.get("tools", ())]
        return [SentTool(f["name"], f.get("description"), f["parameters"]) for f in functions]

    def sent_tool_calls(self, body: dict[str, Any]) -> list[SentCall]:
        return [
            SentCall(call["id"], function["name"], json.loads(function["arguments"]))
            for message in body["messages"]
            for call in message.get("tool_calls") or ()
            for function in [call["function"]]
        ]

    def sent_tool_results(self, body: dict[str, Any]) -> list[SentResult]:
        return [
            SentResult(message["tool_call_id"], "\n".join(p["text"] for p in _parts(message)), [])
            for message in body["messages"]
            if message["role"] == "tool"
        ]

    def sent_images(self, body: dict[str, Any]) -> list[str]:
        urls = [
            part["image_url"]["url"]
            for message in body["messages"]
            for part in _parts(message)
            if part["type"] == "image_url"
        ]
        return [url.partition(";base64,")[2] if url.startswith("data:") else url for url in urls]

    def sent_files(self, body: dict[str, Any]) -> list[str]:
        parts = [part for message in body["messages"] for part in _parts(message)]
        urls = [part["file"]["file_data"] for part in parts if part["type"] == "file"]
        return [url.partition(";base64,")[2] for url in urls]

    def sent_checked_fields(self, body: dict[str, Any]) -> list[str]:
        called = [call.id for call in self.sent_tool_calls(body)]
        return called + [result.id for result in self.sent_tool_results(body)]

    def checked_fields(self, answer: Answer) -> list[str]:
        called = [block.id for block in answer.blocks if isinstance(block, ToolUse)]
        return called + called

    def sent_schema(self, body: dict[str, Any]) -> dict[str, Any] | None:
        return body.get("response_format", {}).get("json_schema", {}).get("schema")

    def sent_max_tokens(self, body: dict[str, Any]) -> int | None:
        return body.get("max_completion_tokens", body.get("max_tokens"))

    def sent_temperature(self, body: dict[str, Any]) -> float | None:
        return body.get("temperature")

    def sent_stop(self, body: dict[str, Any]) -> list[str]:
        return body.get("stop", [])

    def sent_tool_choice(self, body: dict[str, Any]) -> str | None:
        choice: Any = body.get("tool_choice")
        return choice if choice is None or isinstance(choice, str) else choice["function"]["name"]

    def sent_effort(self, body: dict[str, Any]) -> object:
        return body.get("reasoning_effort")

    def sent_prefix(self, body: dict[str, Any]) -> list[str]:
        return [json.dumps(each) for each in (*body.get("tools", ()), *body["messages"])]


def _frame(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    facts = {"created": 1_744_316_542, "service_tier": "default", "system_fingerprint": None}
    return {"id": "chatcmpl-1", "object": kind, "model": body["model"], **facts}


def _chunk(body: dict[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {**_head(body, "chat.completion.chunk"), "choices": choices}


def _choice(finish: str | None = None, **content: Any) -> dict[str, Any]:
    return {"index": 0, **content, "logprobs": None, "finish_reason": finish}


def _deltas(block: Block, call_number: int) -> list[dict[str, Any]]:
    if isinstance(block, Text):
        return [{"content": each} for each in fragments(block.text)]
    if isinstance(block, Thinking):
        return [{"reasoning_content": each} for each in fragments(block.text)]
    assert isinstance(block, ToolUse), "the format has no redacted thinking"
    begin = _call(ToolUse(block.id, block.name, ""))
    rest = [{"function": {"arguments": each}} for each in pieces(block.arguments_json)]
    return [{"tool_calls": [{"index": call_number, **each}]} for each in (begin, *rest)]


def _call(block: ToolUse) -> dict[str, Any]:
    function = {"name": block.name, "arguments": block.arguments_json}
    return {"id": block.id, "type": "function", "function": function}


def _usage(counts: Counts) -> dict[str, Any]:
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning, "audio_tokens": 0},
    }


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the content of a message as parts, whatever form it has."""
    content: Any = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
