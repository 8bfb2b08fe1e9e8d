"""Questions to a person: each about certain calls, each with exactly one outcome."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.interfaces import ApprovalRequest
from amplifier_module_hooks_approval.rules import Call, canonical

logger = logging.getLogger(__name__)

_YES = frozenset({"allow", "allow once"})
_ALWAYS = "allow always"
_EACH = "one by one"
_MOST_CALLS = 10  # of one question: as much as can be read with care
_MOST_CHARACTERS = 4_000


class Answer(NamedTuple):
    """What became of a question, and who or what decided it."""

    approved: bool
    by: str
    reason: str = ""
    remember: bool = False
    each: tuple[Answer, ...] = ()  # of a question that was answered call by call


class Asked(NamedTuple):
    """One call of a question: why it is asked about, and what `always` would mean for it."""

    call: Call
    why: str
    always: str | None


Asker: TypeAlias = Callable[["Question"], Awaitable[Answer]]


class Question:
    """One question about calls of one risk; the first answer that reaches it counts."""

    def __init__(self, question_id: str, risk: str, timeout: float | None, *asked: Asked) -> None:
        self.id = question_id
        self.risk = risk
        self.timeout = timeout
        self.asked = list(asked)
        self.task: asyncio.Task[Answer] | None = None
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting = 0

    def takes(self, asked: Asked) -> bool:
        """Whether a call may be asked about in the same question, which is still to be read."""
        size = sum(len(str(each.call)) for each in (*self.asked, asked))
        return len(self.asked) < _MOST_CALLS and size <= _MOST_CHARACTERS

    @property
    def may_be_remembered(self) -> bool:
        """Whether an answer may go for later calls too."""
        return all(each.always is not None for each in self.asked)

    def __str__(self) -> str:
        """The exact calls, in a form in which nothing can pretend to be something else."""
        count = len(self.asked)
        if count == 1:
            head = "Allow this call?"
        else:
            head = f"Allow these {count} calls?"
        lines = [f"{head} Risk: {self.risk}."]
        notes = [f"  Asked because {each.why}." for each in self.asked]
        if self.may_be_remembered:
            always = "  `Allow always` means: "
            notes = [f"{note}\n{always}{self.asked[at].always}." for at, note in enumerate(notes)]
        for each, note, following in zip(self.asked, notes, [*notes[1:], ""], strict=True):
            lines.append(str(each.call))
            if note != following:  # the same for several calls stands once, below the last
                lines.append(note)
        return "\n".join(lines)

    def take(self, answer: Answer) -> bool:
        """Take an answer; False when it comes too late."""
        if self._answer.done():
            return False
        remember = answer.remember and self.may_be_remembered
        self._answer.set_result(answer._replace(remember=remember))
        return True

    async def outcome(self) -> Answer:
        """Wait for the outcome; when nobody waits any more, the question is withdrawn."""
        assert self.task is not None, "a question is put before it is waited for"
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.task.cancel()

    async def put(self, askers: list[Asker]) -> Answer:
        """Ask everybody at once and return the first answer; silence and failure are a no."""
        tasks = [asyncio.create_task(self._hear(asker)) for asker in askers]
        if self.timeout is None:
            within = ""
        else:
            within = f" within {self.timeout:g} s"
        silence = Answer(False, "nobody", f"nobody answered{within}")
        try:
            async with asyncio.timeout(self.timeout):
                # With the exceptions: one that nobody looks at would end up on the terminal.
                everybody = asyncio.gather(*tasks, return_exceptions=True)
                await asyncio.wait({everybody, self._answer}, return_when="FIRST_COMPLETED")
            if everybody.done() and not self._answer.done():
                failures = "; ".join(str(each) for each in everybody.result() if each)
                self.take(Answer(False, "failure", failures) if failures else silence)
        except TimeoutError:
            self.take(silence)
        finally:
            for task in tasks:
                task.cancel()
            self._answer.cancel()
        return self._answer.result()

    async def _hear(self, asker: Asker) -> str:
        """Take an asker's answer, or return why there is none."""
        try:
            self.take(await asker(self))
        except (TimeoutError, ApprovalTimeoutError):
            return ""
        except Exception:
            logger.exception("approval could not be asked for request=%s", self.id)
            return "asking for approval failed"
        return ""


def ask_provider(provider: Any) -> Asker:
    """Return a way to ask through an `ApprovalProvider`."""

    async def ask(question: Question) -> Answer:
        calls = [
            {
                "tool_call_id": call.call_id,
                "tool_name": call.tool,
                "arguments": canonical(call.arguments),
                "digest": call.digest,
                "why": why,
                "always": always,
            }
            for call, why, always in question.asked
        ]
        request = ApprovalRequest(
            tool_name=question.asked[0].call.tool,
            action=str(question),
            details={"request_id": question.id, "calls": calls},
            risk_level=question.risk,
            timeout=question.timeout,
        )
        response = await provider.request_approval(request)
        reason = response.reason if isinstance(response.reason, str) else ""
        return Answer(response.approved is True, "person", reason, response.remember is True)

    return ask


def ask_system(system: Any) -> Asker:
    """Return a way to ask through the app's approval system."""

    async def ask(question: Question) -> Answer:
        loop = asyncio.get_running_loop()
        if question.timeout is None:
            until = math.inf
        else:
            until = loop.time() + question.timeout

        async def put(part: Question) -> str:
            left = max(until - loop.time(), 0)
            said: Any = await system.request_approval(str(part), _options(part), left, "deny")
            if isinstance(said, str):
                return said.lower()
            return ""

        word = await put(question)
        if word != _EACH or len(question.asked) == 1:
            return _understood(word, question)
        parts = [Question(question.id, question.risk, 0, each) for each in question.asked]
        answers = [_understood(await put(part), part) for part in parts]
        return Answer(False, "person", each=tuple(answers))

    return ask


def _options(question: Question) -> list[str]:
    always = ["Allow always"] if question.may_be_remembered else []
    apart = ["One by one"] if len(question.asked) > 1 else []
    return ["Allow once", *always, *apart, "Deny"]


def _understood(word: str, question: Question) -> Answer:
    always = word == _ALWAYS and question.may_be_remembered
    return Answer(always or word in _YES, "person", remember=always)
