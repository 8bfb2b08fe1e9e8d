"""Counting tokens, where a server offers it: llama.cpp and vLLM, each in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amplifier_core.llm_errors import StreamError

if TYPE_CHECKING:
    from openai import AsyncOpenAI


async def _count_by_llama_cpp(client: AsyncOpenAI, root: str, parameters: dict[str, Any]) -> int:
    asked = {key: parameters[key] for key in ("messages", "tools") if key in parameters}
    templated = await client.post(f"{root}/apply-template", cast_to=object, body=asked)
    prompt = _expect(templated, "prompt", str)
    asked = {"content": prompt, "add_special": True, "parse_special": True}
    counted = await client.post(f"{root}/tokenize", cast_to=object, body=asked)
    return len(_expect(counted, "tokens", list))


async def _count_by_vllm(client: AsyncOpenAI, root: str, parameters: dict[str, Any]) -> int:
    asked = {key: parameters[key] for key in ("model", "messages", "tools") if key in parameters}
    counted = await client.post(f"{root}/tokenize", cast_to=object, body=asked)
    return _expect(counted, "count", int)


def _expect(answer: Any, key: str, kind: type[Any]) -> Any:
    value: Any = answer.get(key) if hasattr(answer, "get") else None
    if not isinstance(value, kind):
        raise StreamError(f"the server counted no tokens: its answer has no `{key}`")
    return value


# How each kind of server counts what the parameters of a call make its model read.
COUNTERS = {"llama.cpp": _count_by_llama_cpp, "vllm": _count_by_vllm}
