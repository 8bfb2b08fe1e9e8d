"""Gemini's `generateContent` and `streamGenerateContent`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from wire.vendor import (
    COUNTED,
    Answer,
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
)

_FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"
# kind: (status, what the API says before the message of the test, details)
_ERRORS: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "invalid": ("INVALID_ARGUMENT", "", []),
    "auth": (
        "INVALID_ARGUMENT",
        "API key not valid. Please pass a valid API key. ",
        [{"@type": _INFO, "reason": "API_KEY_INVALID", "domain": "googleapis.com"}],
    ),
    "denied": ("PERMISSION_DENIED", "", []),
    "not_found": ("NOT_FOUND", "", []),
    "too_long": (
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576). ",
        [],
    ),
    "rate_limit": ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota). ", []),
    "quota": (
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. ",
        [
            {
                "@type": _QUOTA,
                "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
            }
        ],
    ),
    "overloaded": ("UNAVAILABLE", "The model is overloaded. Please try again later. ", []),
    "server": ("INTERNAL", "", []),
}
# The word with which a client says that a call was not Gemini's; it is not verified.
_NOT_VERIFIED = base64.b64encode(b"skip_thought_signature_validator").decode()


class Gemini:
    """The format of `POST /v1beta/models/<model>:generateContent`."""

    id = "gemini"
    module_id = "provider-gemini"
    sdk = "google.genai"
    key_variables: tuple[str, ...] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    features: frozenset[Feature] = frozenset({
        "thinking", "signature", "image_urls", "tool_result_images", "count_tokens",
        "reasoning_tokens", "stop", "priced", "early_usage",
    })  # fmt: skip
    model = "gemini-3.8-flash"
    # The chunk with the finish reason.
    terminal_events = 1

    def config(self, base_url: str) -> dict[str, Any]:
        return {"base_url": base_url, "api_key": "a-key-for-tests", "default_model": self.model}

    def is_generation(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith((":generateContent", ":streamGenerateContent"))

    def wants_stream(self, path: str, body: dict[str, Any]) -> bool:
        return path.endswith(":streamGenerateContent")

    def stream(self, answer: Answer, body: dict[str, Any]) -> list[bytes]:
        chunks: list[dict[str, Any]] = []
        for part in _answered(answer):
            for each in _fragmented(part):
                usage = {"promptTokenCount": answer.usage.input}
                chunks.append(_chunk({"content": _content(each)}, usage))
        last = {"content": _content({"text": ""}), "finishReason": _FINISH[answer.finish]}
        if not answer.blocks:
            del last["content"]
        chunks.append(_chunk(last, _usage(answer.usage)))
        return [_frame(chunk) for chunk in chunks]

    def body(self, answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
        candidate: dict[str, Any] = {"finishReason": _FINISH[answer.finish]}
        if answer.blocks:
            candidate["content"] = _content(*_answered(answer))
        return _chunk(candidate, _usage(answer.usage))

    def error(self, refuse: Refuse) -> dict[str, Any]:
        status, says, details = _ERRORS[refuse.kind]
        error: dict[str, Any] = {"code": refuse.status, "message": says + refuse.message}
        return {"error": {**error, "status": status, **({"details": details} if details else {})}}

    def error_event(self, refuse: Refuse) -> bytes:
        return _frame(self.error(refuse))

    def side_route(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        if method == "POST" and path.endswith(":countTokens"):
            return {"totalTokens": COUNTED}
        if (method, path) != ("GET", "/v1beta/models"):
            return None
        return {
            "models": [
                _model(self.model, "generateContent", "countTokens"),
                _model("second-model", "generateContent"),
                _model("embedding-model", "embedContent"),
            ]
        }

    def sent_model(self, path: str, body: dict[str, Any]) -> str:
        return path.rpartition("/")[2].partition(":")[0]

    def sent_texts(self, body: dict[str, Any]) -> list[Said]:
        return [
            Said("assistant" if role == "model" else role, part["text"])
            for role, part in _parts(body)
            if "text" in part and not part.get("thought")
        ]

    def sent_system(self, body: dict[str, Any]) -> str:
        parts = body.get("systemInstruction", {}).get("parts", ())
        return "\n".join(part["text"] for part in parts)

    def sent_tools(self, body: dict[str, Any]) -> list[SentTool]:
        return [
            SentTool(each["name"], each.get("description"), _get(each, "parametersJsonSchema"))
            for tool in body.get("tools", ())
            for each in _get(tool, "functionDeclarations")
        ]

    def sent_tool_calls(self, body: dict[str, Any]) -> list[SentCall]:
        calls = [part["functionCall"] for _, part in _parts(body) if "functionCall" in part]
        return [SentCall(call["id"], call["name"], call["args"]) for call in calls]

    def sent_tool_results(self, body: dict[str, Any]) -> list[SentResult]:
        results = [
            part["functionResponse"] for _, part in _parts(body) if "functionResponse" in part
        ]
        return [
            SentResult(
                result["id"],
                result["response"]["output"],
                [_standard(_get(part, "inlineData")["data"]) for part in result.get("parts", ())],
            )
            for result in results
        ]

    def sent_images(self, body: dict[str, Any]) -> list[str]:
        return [
            _standard(part["inlineData"]["data"])
            if "inlineData" in part
            else _get(part["fileData"], "fileUri")
            for _, part in _parts(body)
            if "inlineData" in part or "fileData" in part
        ]

    def sent_files(self, body: dict[str, Any]) -> list[str]:
        blobs = [part["inlineData"] for _, part in _parts(body) if "inlineData" in part]
        return [
            _standard(blob["data"])
            for blob in blobs
            if not _get(blob, "mimeType").startswith("image/")
        ]

    def sent_checked_fields(self, body: dict[str, Any]) -> list[str]:
        return [field for _, part in _parts(body) for field in _checked(part)]

    def checked_fields(self, answer: Answer) -> list[str]:
        called = [block.id for block in answer.blocks if isinstance(block, ToolUse)]
        return [field for part in _answered(answer) for field in _checked(part)] + called

    def sent_schema(self, body: dict[str, Any]) -> dict[str, Any] | None:
        return body.get("generationConfig", {}).get("responseJsonSchema")

    def sent_max_tokens(self, body: dict[str, Any]) -> int | None:
        return body.get("generationConfig", {}).get("maxOutputTokens")

    def sent_temperature(self, body: dict[str, Any]) -> float | None:
        return body.get("generationConfig", {}).get("temperature")

    def sent_stop(self, body: dict[str, Any]) -> list[str]:
        return body.get("generationConfig", {}).get("stopSequences", [])

    def sent_tool_choice(self, body: dict[str, Any]) -> str | None:
        calling = body.get("toolConfig", {}).get("functionCallingConfig")
        if calling is None:
            return None
        names = calling.get("allowedFunctionNames")
        return (
            names[0]
            if names
            else {"AUTO": "auto", "NONE": "none", "ANY": "required"}[calling["mode"]]
        )

    def sent_effort(self, body: dict[str, Any]) -> object:
        thinking = body.get("generationConfig", {}).get("thinkingConfig", {})
        return _get(thinking, "thinkingLevel") or _get(thinking, "thinkingBudget")

    def sent_prefix(self, body: dict[str, Any]) -> list[str]:
        tools = [
            each for tool in body.get("tools", ()) for each in _get(tool, "functionDeclarations")
        ]
        read = [body.get("systemInstruction"), *tools, *map(list, _parts(body))]
        return [json.dumps(each) for each in read]


def _frame(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\r\n\r\n"


def _chunk(candidate: dict[str, Any], usage: dict[str, int]) -> dict[str, Any]:
    facts = {"modelVersion": "gemini-3.8-flash", "responseId": "cmVzcG9uc2U"}
    return {"candidates": [{**candidate, "index": 0}], "usageMetadata": usage, **facts}


def _content(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"parts": list(parts), "role": "model"}


def _answered(answer: Answer) -> list[dict[str, Any]]:
    """Return the parts of an answer; what signs a thought is on the first call or the last text."""
    parts: list[dict[str, Any]] = []
    signature = ""
    for block in answer.blocks:
        if isinstance(block, Thinking):
            parts.append({"text": block.text, "thought": True})
            signature = block.signature or signature
        elif isinstance(block, Text):
            parts.append({"text": block.text})
        else:
            assert isinstance(block, ToolUse), "the format has no redacted thinking"
            arguments = json.loads(block.arguments_json)
            call = {"name": block.name, "args": arguments, "id": block.id}
            parts.append({"functionCall": call})
    if signature:
        calls = [part for part in parts if "functionCall" in part]
        (calls or parts[-1:])[0]["thoughtSignature"] = signature
    return parts


def _fragmented(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a part as streams bring it: texts in pieces, calls whole, a signature at the end."""
    if "text" not in part:
        return [part]
    rest = {key: value for key, value in part.items() if key not in ("text", "thoughtSignature")}
    split = [{"text": each, **rest} for each in fragments(part["text"])]
    if "thoughtSignature" in part:
        split[-1]["thoughtSignature"] = part["thoughtSignature"]
    return split


def _usage(counts: Counts) -> dict[str, int]:
    usage = {
        "promptTokenCount": counts.input,
        "candidatesTokenCount": counts.output - counts.reasoning,
        "totalTokenCount": counts.input + counts.output,
        "cachedContentTokenCount": counts.cache_read,
        "thoughtsTokenCount": counts.reasoning,
    }
    return {key: count for key, count in usage.items() if count}


def _model(name: str, *methods: str) -> dict[str, Any]:
    limits = {"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}
    facts = {"version": "001", "displayName": name.title(), "supportedGenerationMethods": methods}
    return {"name": f"models/{name}", **facts, **limits, "thinking": True}


def _get(fields: dict[str, Any], name: str) -> Any:
    """Return a field that may be written in either case; the API reads both."""
    return fields.get(name, fields.get(re.sub("([A-Z])", r"_\1", name).lower()))


def _parts(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for content in body["contents"]:
        for part in content["parts"]:
            yield content["role"], part


def _checked(part: dict[str, Any]) -> Iterator[str]:
    if part.get("thought"):
        yield part["text"]
    if "thoughtSignature" in part:
        signature = _standard(part["thoughtSignature"])
        if signature != _NOT_VERIFIED:
            yield signature
    for kind in ("functionCall", "functionResponse"):
        if kind in part:
            yield part[kind]["id"]


def _standard(data: str) -> str:
    """Return base64 in its standard alphabet; the SDK writes the other, which means the same."""
    return base64.b64encode(base64.urlsafe_b64decode(data)).decode()
