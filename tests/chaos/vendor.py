"""The model: a server outside of every worker, which counts what it is asked.

What it answers follows from the conversation alone. One JSON line asks; lines with a `text` each
and one with `calls` answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import time
from types import TracebackType
from typing import Any, NamedTuple

from chaos.script import APPROVAL, CHILDREN, PLAIN, TOOLS, answer_to

_LONGEST_LINE = 1 << 22
_LONGEST_WORD_SECONDS = 0.06
UNKNOWN, DENIED, NOT_PAID = "Outcome unknown", "Denied", "not paid"


class Ask(NamedTuple):
    """One call that reached the vendor; `identity` is the same for the same question."""

    at: float
    identity: str
    session_id: str
    turn_id: str
    key: str
    epoch: int


class Vendor:
    """Answers on a port of loopback until it is left."""

    def __init__(self, seed: int) -> None:
        self.asks: list[Ask] = []
        self.port = 0
        self._seed = seed
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Vendor:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST_LINE)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                await self._answer(json.loads(line), writer)
        except ConnectionError:
            # Who asked was killed.
            pass
        finally:
            writer.close()

    async def _answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        ask = _ask(request)
        self.asks.append(ask)
        dice = random.Random(f"{self._seed}/{ask.identity}")
        text, calls = next_step(request["messages"])
        for word in re.findall(r"\S+\s*", text):
            await asyncio.sleep(dice.uniform(0.0, _LONGEST_WORD_SECONDS))
            writer.write(json.dumps({"text": word}).encode() + b"\n")
            await writer.drain()
        writer.write(json.dumps({"calls": calls}).encode() + b"\n")
        await writer.drain()


def _ask(request: dict[str, Any]) -> Ask:
    question = json.dumps([request["session_id"], request["messages"]], sort_keys=True)
    identity = hashlib.sha256(question.encode()).hexdigest()[:16]
    told = {name: request[name] for name in ("session_id", "turn_id", "key", "epoch")}
    return Ask(at=time.time(), identity=identity, **told)


def next_step(messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return what the model says and which tools it calls, after this conversation."""
    last = max(index for index, each in enumerate(messages) if each["role"] == "user")
    number, kind = messages[last]["text"].split(" ")
    results = {each["call_id"]: each["text"] for each in messages[last:] if each["role"] == "tool"}
    if kind == PLAIN:
        return answer_to(number, kind), []
    if kind == CHILDREN:
        return _delegate(number, results)
    assert kind in (TOOLS, APPROVAL), kind
    return _buy(number, kind, results)


def _delegate(number: str, results: dict[str, str]) -> tuple[str, list[dict[str, Any]]]:
    if not results:
        prompts = (f"{number}/1 {TOOLS}", f"{number}/2 {PLAIN}")
        calls = [
            _call(f"{number}-task-{index}", "task", {"prompt": prompt, "agent": "helper"})
            for index, prompt in enumerate(prompts)
        ]
        return "I have two of them look.", calls
    wanted = (f"{number}/1:", f"{number}/2:")
    told = [name for name in wanted if any(name in text for text in results.values())]
    if len(told) < len(wanted):
        return f"{number}: not told: {results}", []
    return answer_to(number, CHILDREN), []


def _buy(number: str, kind: str, results: dict[str, str]) -> tuple[str, list[dict[str, Any]]]:
    if not results:
        return "Let me see about that .", [
            _order(f"{number}-price", "price"),
            _order(f"{number}-stock", "stock"),
            _pay(number, kind, 0),
        ]
    last = list(results.values())[-1]
    tries = sum("-pay-" in call_id for call_id in results)
    if UNKNOWN in last:
        return "I check .", [_order(f"{number}-check-{tries}", "check")]
    if NOT_PAID in last:
        return "Once more .", [_pay(number, kind, tries)]
    return answer_to(number, kind, is_allowed=DENIED.lower() not in last.lower()), []


def _pay(number: str, kind: str, tries: int) -> dict[str, Any]:
    return _order(f"{number}-pay-{tries}", "pay", ask=kind == APPROVAL)


def _order(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    # A tool is not told its call's id, and notes it with its effect.
    return _call(call_id, name, {"call_id": call_id, **arguments})


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}
