"""From the chunks of a completion to an answer, announced as it arrives."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from amplifier_kit.calls.block_stream import BlockKind, BlockStream
from amplifier_kit.calls.messages import reading_answer
from amplifier_module_provider_chat_completions.from_wire import Answer, Part, field_of

# How servers spell a message's reasoning.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class Collector:
    """Puts the fragments of one answer together; an unstreamed answer is one large fragment."""

    def __init__(self, announce: BlockStream | None, provider: str = "", model: str = "") -> None:
        self.answer = Answer()
        self._announce = announce
        self._facts = (provider, model)
        # The call that each index of the server stands for, and the server's id for it.
        self._calls: dict[int, tuple[str, Part]] = {}
        self._taken_ids = {""}

    async def take(self, chunk: Any) -> None:
        """Take a chunk of a stream, or a whole completion; a StreamError if it cannot be read."""
        answer = self.answer
        with reading_answer(*self._facts):
            answer.usage = field_of(chunk, "usage") or answer.usage
            for choice in field_of(chunk, "choices", list) or ():
                await self._take_delta(field_of(choice, "delta") or field_of(choice, "message"))
                answer.finish = field_of(choice, "finish_reason", str) or answer.finish

    async def _take_delta(self, delta: Any) -> None:
        for spelled in _REASONING_FIELDS:
            if reasoning := field_of(delta, spelled, str):
                await self._speak(reasoning, spelled)
                break
        if text := field_of(delta, "content", str):
            await self._speak(text, None)
        self.answer.refusal += field_of(delta, "refusal", str) or ""
        for place, call in enumerate(field_of(delta, "tool_calls", list) or ()):
            await self._call(place, call)

    async def _speak(self, text: str, reasoning: str | None) -> None:
        parts = self.answer.parts
        if not parts or parts[-1].tool is not None or parts[-1].reasoning != reasoning:
            await self._begin(Part(reasoning=reasoning), "thinking" if reasoning else "text")
        parts[-1].fragments.append(text)
        if self._announce is not None:
            await self._announce.delta(len(parts) - 1, text)

    async def _call(self, place: int, fragment: Any) -> None:
        # Only in streams do calls have an index.
        index = field_of(fragment, "index", int)
        index = place if index is None else index
        call_id: str = field_of(fragment, "id", str) or ""
        function = field_of(fragment, "function")
        known_id, part = self._calls.get(index, ("", None))
        # Some servers number all their calls 0 and tell them apart by their ids.
        if part is None or (call_id and known_id and call_id != known_id):
            if call_id in self._taken_ids:
                own_id = f"call_{uuid4().hex}"
            else:
                own_id = call_id
            self._taken_ids.add(own_id)
            part = Part(tool=field_of(function, "name", str) or "", id=own_id)
            self._calls[index] = (call_id, part)
            await self._begin(part, "tool_use")
        part.fragments.append(field_of(function, "arguments", str) or "")

    async def _begin(self, part: Part, kind: BlockKind) -> None:
        self.answer.parts.append(part)
        if self._announce is not None:
            await self._announce.end_all()
            await self._announce.start(len(self.answer.parts) - 1, kind, part.tool)
