"""Responses, the format of OpenAI's newer API."""

from __future__ import annotations

import json
from collections.abc import Iterator
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

# kind: (type, code)
_ERRORS = {
    "invalid": ("invalid_request_error", None),
    "auth": ("invalid_request_error", "invalid_api_key"),
    "denied": ("invalid_request_error", "unsupported_country_region_territory"),
    "not_found": ("invalid_request_error", "model_not_found"),
    "too_long": ("invalid_request_error", "context_length_exceeded"),
    "rate_limit": ("tokens", "rate_limit_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "overloaded": ("service_unavailable_error", "server_is_overloaded"),
    "server": ("server_error", "server_error"),
}
_CAUSES = {"length": "max_output_tokens", "filter": "content_filter"}

Json = dict[str, Any]


class Responses:
    """The format of `POST /v1/responses`."""

    id = "responses"
    module_id = "provider-openai"
    sdk = "openai"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    features: frozenset[Feature] = frozenset(
        {
            "thinking",
            "signature",
            "redacted",
            "argument_text",
            "image_urls",
            "tool_result_images",
            "count_tokens",
            "cache_write",
            "reasoning_tokens",
            "priced",
        }
    )
    model = "gpt-5.6-sol"
    # `response.completed` or `response.incomplete`.
    terminal_events = 1

    def config(self, base_url: str) -> Json:
        return {
            "base_url": f"{base_url}/v1",
            "api_key": "a-key-for-tests",
            "default_model": self.model,
        }

    # --- the server's side ---

    def is_generation(self, method: str, path: str) -> bool:
        return (method, path) == ("POST", "/v1/responses")

    def wants_stream(self, path: str, body: Json) -> bool:
        return body.get("stream") is True

    def stream(self, answer: Answer, body: Json) -> list[bytes]:
        items = _items(answer)
        begun: Json = {**_response(body, "in_progress"), "output": [], "usage": None}
        whole = self.body(answer, body)
        events: list[Json] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for number, (block, item) in enumerate(zip(answer.blocks, items, strict=True)):
            place = {"output_index": number}
            empty = {**item, **_EMPTY[item["type"]], "status": "in_progress"}
            events.append({"type": "response.output_item.added", **place, "item": empty})
            events += [{**each, "item_id": item["id"], **place} for each in _inside(block)]
            events.append({"type": "response.output_item.done", **place, "item": item})
        events.append({"type": f"response.{whole['status']}", "response": whole})
        numbered = enumerate(events)
        return [_frame({**event, "sequence_number": number}) for number, event in numbered]

    def body(self, answer: Answer, body: Json) -> Json:
        cause = _CAUSES.get(answer.finish)
        return {
            **_response(body, "incomplete" if cause else "completed"),
            "incomplete_details": {"reason": cause} if cause else None,
            "output": _items(answer),
            "usage": _usage(answer.usage),
        }

    def error(self, refuse: Refuse) -> Json:
        kind, code = _ERRORS[refuse.kind]
        return {"error": {"message": refuse.message, "type": kind, "param": None, "code": code}}

    def error_event(self, refuse: Refuse) -> bytes:
        code = _ERRORS[refuse.kind][1]
        facts = {"code": code, "message": refuse.message, "param": None, "sequence_number": 99}
        return _frame({"type": "error", **facts})

    def side_route(self, method: str, path: str, body: Json | None) -> Json | None:
        if (method, path) == ("POST", "/v1/responses/input_tokens"):
            return {"object": "response.input_tokens", "input_tokens": COUNTED}
        if (method, path) != ("GET", "/v1/models"):
            return None
        facts = {"object": "model", "created": 1_744_316_542, "owned_by": "system"}
        return {
            "object": "list",
            "data": [{"id": name, **facts} for name in (self.model, "second-model")],
        }

    # --- our side, as it reached the server ---

    def sent_model(self, path: str, body: Json) -> str:
        return body["model"]

    def sent_texts(self, body: Json) -> list[Said]:
        return [
            Said(message["role"], part["text"])
            for message in _messages(body)
            if message["role"] != "system"
            for part in message["content"]
            if part["type"] in ("input_text", "output_text")
        ]

    def sent_system(self, body: Json) -> str:
        later = [
            part["text"]
            for message in _messages(body)
            if message["role"] == "system"
            for part in message["content"]
        ]
        return "\n".join([*filter(None, [body.get("instructions")]), *later])

    def sent_tools(self, body: Json) -> list[SentTool]:
        return [
            SentTool(tool["name"], tool.get("description"), tool["parameters"])
            for tool in body.get("tools", ())
        ]

    def sent_tool_calls(self, body: Json) -> list[SentCall]:
        return [
            SentCall(item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in body["input"]
            if item.get("type") == "function_call"
        ]

    def sent_tool_results(self, body: Json) -> list[SentResult]:
        found: list[SentResult] = []
        for item in body["input"]:
            if item.get("type") == "function_call_output":
                output = item["output"]
                parts = (
                    [{"type": "input_text", "text": output}] if isinstance(output, str) else output
                )
                texts = [part["text"] for part in parts if part["type"] == "input_text"]
                found.append(SentResult(item["call_id"], "\n".join(texts), _pictures(parts)))
        return found

    def sent_images(self, body: Json) -> list[str]:
        return [url for message in _messages(body) for url in _pictures(message["content"])]

    def sent_files(self, body: Json) -> list[str]:
        parts = [part for message in _messages(body) for part in message["content"]]
        urls = [part["file_data"] for part in parts if part["type"] == "input_file"]
        return [url.partition(";base64,")[2] for url in urls]

    def sent_checked_fields(self, body: Json) -> list[str]:
        return [field for item in body["input"] for field in _checked(item)]

    def checked_fields(self, answer: Answer) -> list[str]:
        called = [block.id for block in answer.blocks if isinstance(block, ToolUse)]
        return [field for item in _items(answer) for field in _checked(item)] + called

    def sent_schema(self, body: Json) -> Json | None:
        return body.get("text", {}).get("format", {}).get("schema")

    def sent_max_tokens(self, body: Json) -> int | None:
        return body.get("max_output_tokens")

    def sent_temperature(self, body: Json) -> float | None:
        return body.get("temperature")

    def sent_stop(self, body: Json) -> list[str]:
        return []

    def sent_tool_choice(self, body: Json) -> str | None:
        choice: Any = body.get("tool_choice")
        return choice if choice is None or isinstance(choice, str) else choice["name"]

    def sent_effort(self, body: Json) -> object:
        return body.get("reasoning", {}).get("effort")

    def sent_prefix(self, body: Json) -> list[str]:
        head = (body.get("instructions"), *body.get("tools", ()))
        return [json.dumps(each) for each in (*head, *body["input"])]


# --- items ----------------------------------------------------------------------------------------

# What an item of each type still lacks when it is announced.
_EMPTY: dict[str, Json] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": [], "encrypted_content": None},
}


def _items(answer: Answer) -> list[Json]:
    items = [_item(block, number) for number, block in enumerate(answer.blocks)]
    if items and answer.finish == "length":
        items[-1]["status"] = "incomplete"
    return items


def _item(block: Block, number: int) -> Json:
    """Return a block as the one item it is; the API writes `status` on all but reasoning."""
    if isinstance(block, Text):
        part: Json = {"type": "output_text", "text": block.text, "annotations": [], "logprobs": []}
        facts: Json = {"role": "assistant", "content": [part], "status": "completed"}
        return {"type": "message", "id": f"msg_{number}", **facts}
    if isinstance(block, ToolUse):
        facts = {"call_id": block.id, "name": block.name, "arguments": block.arguments_json}
        return {
            "type": "function_call", "id": f"fc_{number}", "status": "completed", **facts
        }  # fmt: skip
    summary, sealed = [], block.data if isinstance(block, RedactedThinking) else block.signature
    if isinstance(block, Thinking):
        summary = [{"type": "summary_text", "text": block.text}]
    facts = {"summary": summary, "encrypted_content": sealed or None}
    return {"type": "reasoning", "id": f"rs_{number}", **facts}


def _inside(block: Block) -> Iterator[Json]:
    """Yield the events between an item's announcement and its end."""
    if isinstance(block, Text):
        kind, place = "response.output_text", {"content_index": 0}
        part: Json = {"type": "output_text", "annotations": [], "logprobs": []}
        begun, whole = {**part, "text": ""}, {**part, "text": block.text}
        yield {"type": "response.content_part.added", **place, "part": begun}
        for each in fragments(block.text):
            yield {"type": f"{kind}.delta", **place, "delta": each, "logprobs": []}
        yield {"type": f"{kind}.done", **place, "text": block.text, "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": whole}
    elif isinstance(block, ToolUse):
        kind, raw = "response.function_call_arguments", block.arguments_json
        for each in pieces(raw):
            yield {"type": f"{kind}.delta", "delta": each}
        yield {"type": f"{kind}.done", "name": block.name, "arguments": raw}
    elif isinstance(block, Thinking):
        kind, place = "response.reasoning_summary", {"summary_index": 0}
        part = {"type": "summary_text", "text": block.text}
        yield {"type": f"{kind}_part.added", **place, "part": {**part, "text": ""}}
        for each in fragments(block.text):
            yield {"type": f"{kind}_text.delta", **place, "delta": each}
        yield {"type": f"{kind}_text.done", **place, "text": block.text}
        yield {"type": f"{kind}_part.done", **place, "part": part}


def _response(body: Json, status: str) -> Json:
    asked = ("model", "instructions", "max_output_tokens", "temperature", "top_p", "store")
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_744_316_542,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": body.get("reasoning", {"effort": None, "summary": None}),
        "text": body.get("text", {"format": {"type": "text"}}),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "truncation": "disabled",
        "metadata": {},
        **{key: body.get(key) for key in asked},
    }


def _usage(counts: Counts) -> Json:
    cached = {"cached_tokens": counts.cache_read, "cache_write_tokens": counts.cache_write}
    return {
        "input_tokens": counts.input,
        "input_tokens_details": cached,
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.input + counts.output,
    }


def _frame(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _messages(body: Json) -> list[Json]:
    return [item for item in body["input"] if item.get("type", "message") == "message"]


def _pictures(parts: list[Json]) -> list[str]:
    urls = [part["image_url"] for part in parts if part["type"] == "input_image"]
    return [url.partition(";base64,")[2] if url.startswith("data:") else url for url in urls]


def _checked(item: Json) -> list[str]:
    """Return what the API verifies in one item."""
    if item.get("type") == "reasoning":
        return [item["id"], json.dumps(item["summary"]), item["encrypted_content"]]
    called = item.get("type") in ("function_call", "function_call_output")
    return [item["call_id"]] if called else []
