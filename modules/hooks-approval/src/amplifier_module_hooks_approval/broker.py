"""The broker: asks the questions of a whole tree of sessions, and keeps the answers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4
from weakref import WeakValueDictionary

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.interfaces import ApprovalRequest
from amplifier_kit.notices import Level, show
from amplifier_kit.questions import Asking, Reply, Suggestion, reply_of
from amplifier_kit.turn_events import MODE_CHANGED
from amplifier_module_hooks_approval.config import Mode
from amplifier_module_hooks_approval.grants import Grants
from amplifier_module_hooks_approval.modes import MODES
from amplifier_module_hooks_approval.rendering import CallView, call_lines, headline, title_of
from amplifier_module_hooks_approval.rules import Call, Ruling, call_from, canonical
from amplifier_sandbox.visible_text import exact

logger = logging.getLogger(__name__)

_YES = frozenset({"allow", "allow once"})
_ALWAYS = "allow always"
_EACH = "one by one"
_MOST_CALLS = 10  # of one question: as much as can be read with care
_MOST_CHARACTERS = 4_000
_LONGEST_OPTION = 120


class Answer(NamedTuple):
    """The answer to a question, and who or what gave it."""

    approved: bool
    by: str
    reason: str = ""
    remember: bool = False
    reach: str = ""  # of a remembered answer: how far; empty is the first that was offered
    each: tuple[Answer, ...] = ()  # of a question that was answered call by call
    arguments: dict[str, Any] | None = None  # of the call, if the user has changed it


class Asked(NamedTuple):
    """One call in a question: why it is asked about, and what a lasting answer would cover."""

    call: Call
    why: str
    covers: str = ""  # in words; empty if no answer may last
    reaches: tuple[str, ...] = ()  # how far it may reach, the usual first
    lasts: str = ""
    view: CallView = CallView()

    def __str__(self) -> str:
        return "\n".join(call_lines(self.call, self.view))

    @property
    def editable(self) -> str | None:
        """The text that the user may change, if all of it can be seen."""
        preview = self.view.preview
        text = None if preview is None else self.call.named_arguments.get(preview.editable)
        if not isinstance(text, str) or any(exact(line) != line for line in text.split("\n")):
            return None
        return text


Asker: TypeAlias = Callable[["Question"], Awaitable[Answer]]


class Question:
    """One question about calls of one risk; the first answer counts."""

    def __init__(self, question_id: str, risk: str, timeout: float | None, *asked: Asked) -> None:
        self.id = question_id
        self.risk = risk
        self.timeout = timeout
        self.asked = list(asked)
        self.task: asyncio.Task[Answer] | None = None
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting = 0

    def takes(self, asked: Asked) -> bool:
        """Whether a call may join this question, which has to stay short enough to read."""
        size = sum(len(str(each)) for each in (*self.asked, asked))
        return len(self.asked) < _MOST_CALLS and size <= _MOST_CHARACTERS

    @property
    def may_be_remembered(self) -> bool:
        """Whether an answer may apply to later calls too."""
        return bool(self.reaches)

    @property
    def reaches(self) -> list[str]:
        """How far an answer to all of the calls may reach, the usual first."""
        first, *others = self.asked
        return [reach for reach in first.reaches if all(reach in each.reaches for each in others)]

    def lasting_option(self, reach: str) -> str:
        """Return the option that allows later calls too; it says which, and how far."""
        covered = " and ".join(dict.fromkeys(exact(each.covers) for each in self.asked))
        if len(covered) > _LONGEST_OPTION:
            covered = "what a lasting answer covers"
        return f"Allow {covered}, this {reach}"

    def __str__(self) -> str:
        """The exact calls, escaped so that no argument can imitate the question itself."""
        lines = [headline([(each.call, each.view) for each in self.asked])]
        notes = [_because(each) for each in self.asked]
        if self.may_be_remembered:
            for at, each in enumerate(self.asked):
                covered = f"{exact(each.covers)}, for {each.lasts}"
                notes[at] += f"A lasting answer covers {covered}.\n"
        for each, note, following in zip(self.asked, notes, [*notes[1:], ""], strict=True):
            if len(self.asked) > 1:
                lines.append(f"- {title_of(each.call, each.view)}")
            lines.append(str(each))
            if note != following:  # the same for several calls stands once, below the last
                lines += note.splitlines()
        return "\n".join(filter(None, lines))

    def take(self, answer: Answer) -> bool:
        """Accept an answer; False if there is one already."""
        if self._answer.done():
            return False
        is_offered = not answer.reach or answer.reach in self.reaches
        remember = answer.remember and self.may_be_remembered and is_offered
        self._answer.set_result(answer._replace(remember=remember))
        return True

    async def outcome(self) -> Answer:
        """Wait for the outcome; the question is withdrawn once no caller waits for it."""
        # Shielded: one cancelled call must not cancel the question of the others.
        assert self.task is not None, "a question is put before it is waited for"
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.task.cancel()

    async def put(self, askers: list[Asker]) -> Answer:
        """Ask in parallel and return the first answer; silence and failure deny."""
        tasks = [asyncio.create_task(self._hear(asker)) for asker in askers]
        if self.timeout is None:
            within = ""
        else:
            within = f" within {self.timeout:g} s"
        silence = Answer(False, "nobody", f"nobody answered{within}")
        try:
            async with asyncio.timeout(self.timeout):
                # An exception that is never retrieved would be printed into the chat.
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
        """Accept an asker's answer, or return why there is none."""
        try:
            self.take(await asker(self))
        except (TimeoutError, ApprovalTimeoutError):
            return ""
        except Exception:
            # An app's code; its failure must not answer for the others that were asked.
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
                "covers": covers,
                "reaches": list(reaches),
            }
            for call, why, covers, reaches, *_ in question.asked
        ]
        request = ApprovalRequest(
            tool_name=question.asked[0].call.tool,
            action=str(question),
            details={"request_id": question.id, "calls": calls},
            risk_level=question.risk,
            timeout=question.timeout,
        )
        response = await provider.request_approval(request)
        if isinstance(response.reason, str):
            reason = response.reason
        else:
            reason = ""
        return Answer(response.approved is True, "user", reason, response.remember is True)

    return ask


def ask_system(system: Any) -> Asker:
    """Return a way to ask through the app's approval system."""

    async def ask(question: Question) -> Answer:
        loop = asyncio.get_running_loop()
        if question.timeout is None:
            until = math.inf
        else:
            until = loop.time() + question.timeout

        async def put(part: Question) -> Reply:
            left = max(until - loop.time(), 0)
            return await reply_of(system, _asking(part, left))

        reply = await put(question)
        if reply.option.lower() != _EACH or len(question.asked) == 1:
            return _with_reply(_understood(reply.option.lower(), question), reply, question)
        parts = [Question(question.id, question.risk, 0, each) for each in question.asked]
        answers: list[Answer] = []
        for part in parts:
            said = await put(part)
            answers.append(_with_reply(_understood(said.option.lower(), part), said, part))
        return Answer(False, "user", each=tuple(answers))

    return ask


def _asking(question: Question, timeout: float) -> Asking:
    alone = question.asked[0] if len(question.asked) == 1 else None
    return Asking(
        str(question),
        tuple(_options(question)),
        timeout,
        editable=None if alone is None else alone.editable,
        suggests=_suggestion(question),
        call_id=None if alone is None else alone.call.call_id,
    )


def _suggestion(question: Question) -> Suggestion:
    suggested: list[Suggestion] = [each.view.suggests for each in question.asked]
    return "deny" if "deny" in suggested else suggested[0]


def _with_reply(answer: Answer, reply: Reply, question: Question) -> Answer:
    """Return an answer with what the user said or changed."""
    answer = answer._replace(reason=reply.reason)
    asked = question.asked[0]
    preview = asked.view.preview
    # A lasting yes is for what was shown.
    may_change = answer.approved and not answer.remember and len(question.asked) == 1
    if not may_change or preview is None or asked.editable is None:
        return answer
    if reply.edited is None or reply.edited == asked.editable:
        return answer
    arguments = {**asked.call.named_arguments, preview.editable: reply.edited}
    return answer._replace(arguments=arguments)


def _because(asked: Asked) -> str:
    return f"Asked because {asked.why}.\n" if asked.view.tells_why else ""


def _options(question: Question) -> list[str]:
    lasting = [question.lasting_option(reach) for reach in question.reaches]
    apart = ["One by one"] if len(question.asked) > 1 else []
    return ["Allow once", *lasting, *apart, "Deny"]


def _understood(word: str, question: Question) -> Answer:
    for reach in question.reaches:
        # `Allow always` is the answer of apps that do not read the options: the first of these.
        if word in (question.lasting_option(reach).lower(), _ALWAYS):
            return Answer(True, "user", remember=True, reach=reach)
    return Answer(word in _YES, "user")


NAME = "hooks-approval"
_MOST_KEPT = 1_000


class _Decision(NamedTuple):
    call: Call
    ruling: Ruling
    at: datetime


class Broker:
    """The one broker of a tree of sessions, offered as the capability `approval.grants`."""

    def __init__(
        self, coordinator: Any, grants: Grants, state: dict[str, Any], now: Callable[[], datetime]
    ) -> None:
        """`state` is the session's own, in which parked calls outlive the process."""
        self.grants = grants
        self.now = now
        self._state = state
        # Whether the guard of the root session is mounted, which all others inherit.
        self.on_duty = True
        self.sessions: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._coordinator = coordinator
        self._parked: dict[str, dict[str, Any]] = state.setdefault("waiting", {})
        self._providers: list[Any] = []
        self._gathering: dict[tuple[str, str, str], Question] = {}
        self._asked: Counter[str] = Counter()
        self._open: dict[str, Question] = {}
        self._decisions: OrderedDict[tuple[str, str], _Decision] = OrderedDict()
        self._concerns: OrderedDict[tuple[str, str, str], list[str]] = OrderedDict()
        self._edits: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()
        self._agents: OrderedDict[str, str] = OrderedDict()

    # --- for apps -------------------------------------------------------------------------------

    def list(self) -> list[dict[str, Any]]:
        """Return the grants that have not expired, each with exactly what it matches."""
        now = self.now()
        return [each.model_dump(mode="json") for each in self.grants.all() if each.until > now]

    @property
    def mode(self) -> Mode:
        """How much is asked about."""
        return self._state["mode"]

    def use_mode(self, mode: Mode) -> None:
        """Change the mode without announcing it, as a replay does."""
        self._state["mode"] = mode

    @property
    def modes(self) -> dict[Mode, str]:
        """All modes, with what each does."""
        return MODES

    async def set_mode(self, mode: Mode) -> None:
        """Change the mode for the whole tree of sessions, from the next call on."""
        self.use_mode(mode)
        await self._coordinator.hooks.emit(MODE_CHANGED, {"mode": mode})

    def revoke(self, grant_id: str) -> bool:
        """Delete a grant; False if there is none of this id."""
        return self.grants.revoke(grant_id)

    def explain(self, call_id: str) -> dict[str, Any] | None:
        """Return the last decision about a call and the rule that decided it."""
        decisions = reversed(self._decisions.values())
        found = next((each for each in decisions if each.call.call_id == call_id), None)
        if found is None:
            return None
        call, ruling, at = found
        shown = {"tool": call.tool, "arguments": canonical(call.arguments), "digest": call.digest}
        needs = list(ruling.needs) or [call.tool]
        decided = {"action": ruling.action, "by": ruling.by, "rule": ruling.words, "needs": needs}
        return {"session_id": call.session_id, **shown, **decided, "at": at.isoformat()}

    def waiting(self) -> list[dict[str, Any]]:
        """Return what waits for an answer: open questions and parked calls."""
        questions = [{"id": each.id, "question": str(each)} for each in self._open.values()]
        parked = [
            {"id": parked, "question": record["question"]}
            for parked, record in self._parked.items()
            if record["answer"] is None
        ]
        return [*questions, *parked]

    def answer(
        self,
        question_id: str,
        approved: bool,
        *,
        remember: bool = False,
        reach: str = "",
        who: str = "user",
    ) -> bool:
        """Answer a question; False if it does not wait for an answer, or no longer does.

        `reach` is how far an answer to `remember` applies: `session` or `project`; empty is the
        first that the question offers.
        """
        if question_id in self._open:
            answer = Answer(approved is True, who, remember=remember, reach=reach)
            return self._open[question_id].take(answer)
        record = self._parked.get(question_id)
        if record is None or record["answer"] is not None:
            return False
        record.update(answer=approved is True, who=who)
        return True

    def register_provider(self, provider: Any) -> Callable[[], None]:
        """Ask through `provider` from now on; the returned function undoes this."""
        self._providers.append(provider)

        def remove() -> None:
            if provider in self._providers:
                self._providers.remove(provider)

        return remove

    def raise_concern(self, data: dict[str, Any], concern: str) -> bool:
        """Make the guard ask about the call of a `tool:pre`, whatever the rules say.

        False if no guard is mounted to do it.
        """
        call = call_from(data)
        concerns = self._concerns.setdefault((call.session_id, call.call_id, call.digest), [])
        concerns.append(exact(concern))
        _forget_oldest(self._concerns)
        return self.on_duty

    # --- for guards -----------------------------------------------------------------------------

    def leave(self, coordinator: Any) -> None:
        """Note that the guard of a session was unmounted."""
        if coordinator is self._coordinator:
            self.on_duty = False

    def coordinator_of(self, call: Call) -> Any:
        """Return the coordinator of the session that makes a call, else the broker's own."""
        return self.sessions.get(call.session_id, self._coordinator)

    def tell(self, call: Call, line: str, level: Level = "warning") -> None:
        """Show a message to the user."""
        show(self.coordinator_of(call), line, level, source=NAME)

    def concerns_about(self, call: Call) -> list[str]:
        """Return the concerns about a call, and remove them."""
        return self._concerns.pop((call.session_id, call.call_id, call.digest), [])

    def note(self, call: Call, ruling: Ruling) -> None:
        """Keep a decision for `explain`."""
        key = (call.session_id, call.call_id)
        self._decisions[key] = _Decision(call, ruling, self.now())
        self._decisions.move_to_end(key)
        _forget_oldest(self._decisions)

    async def note_agent(self, event: str, data: dict[str, Any]) -> None:
        """Keep the name of an agent that was started, by the id of its session."""
        self._agents[str(data.get("child_session_id"))] = str(data.get("agent") or "")
        _forget_oldest(self._agents)

    def agent_of(self, call: Call) -> str:
        """Return the agent that makes a call; empty for the session itself."""
        if call.session_id in ("", self._coordinator.session_id):
            return ""
        name = self._agents.get(call.session_id)
        return f"the agent {name}" if name else "a sub-agent"

    def note_edit(self, call: Call) -> None:
        """Keep a call as the user has changed it."""
        self._edits[(call.session_id, call.call_id)] = call.named_arguments
        _forget_oldest(self._edits)

    def edit_of(self, call: Call) -> dict[str, Any] | None:
        """Return the arguments that the user put in place of those of a call."""
        return self._edits.get((call.session_id, call.call_id))

    def forget_edit(self, call: Call) -> None:
        """Forget the edit of a call that has ended."""
        self._edits.pop((call.session_id, call.call_id), None)

    def is_asking(self, call: Call) -> bool:
        """Whether an open question is about this call; a parked one keeps no guard waiting."""
        return any(each.call == call for question in self._open.values() for each in question.asked)

    def was_just_allowed(self, call: Call) -> bool:
        """Whether the guard of a parent session has just asked about this very call."""
        noted = self._decisions.get((call.session_id, call.call_id))
        if noted is None or not call.moment:
            return False
        return noted.call == call and noted.ruling.by == "user"

    @property
    def asks_again(self) -> bool:
        """Whether a question may be asked again, in a later run of the same turn."""
        return getattr(self._coordinator.approval_system, "asks_again", False) is True

    def askers(self) -> list[Asker]:
        """Return the ways to ask a user; empty if there is none."""
        if self._providers:
            return [ask_provider(each) for each in self._providers]
        system = self._coordinator.approval_system
        if system is None:
            return []
        return [ask_system(system)]

    async def ask(
        self, asked: Asked, risk: str, *, timeout: float | None, batch: float
    ) -> tuple[str, Answer]:
        """Ask about a call, together with others of its step; return the question's id too."""
        call = asked.call
        key = (call.session_id, call.group, risk)
        question = self._gathering.get(key)
        if question is None or not question.takes(asked):
            question = Question(self._name_question(call), risk, timeout)
            question.task = asyncio.create_task(self._put(question, key, batch))
            if call.group:
                self._gathering[key] = question
        number = len(question.asked)
        question.asked.append(asked)
        answer = await question.outcome()
        return question.id, answer.each[number] if answer.each else answer

    def _name_question(self, call: Call) -> str:
        """Return an id made of the first call: a turn that is run again asks under the same id."""
        about = f"{call.session_id}|{call.call_id}|{call.digest}"
        self._asked[about] += 1
        text = f"{about}|{self._asked[about]}"
        return f"approval-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:12]}"

    async def _put(self, question: Question, key: tuple[str, str, str], batch: float) -> Answer:
        try:
            if self._gathering.get(key) is question:
                await asyncio.sleep(batch)
        finally:
            if self._gathering.get(key) is question:
                del self._gathering[key]
        self._open[question.id] = question
        try:
            for each in question.asked:
                await self.announce("approval:required", each.call, question.id, each.why)
            return await question.put(self.askers())
        finally:
            del self._open[question.id]

    async def announce(self, event: str, call: Call, request_id: str | None, why: str) -> None:
        """Emit an event in a call's session: what was decided, or has to be."""
        facts = {"tool_name": call.tool, "tool_call_id": call.call_id, "digest": call.digest}
        hooks = self.coordinator_of(call).hooks
        await hooks.emit(event, {**facts, "request_id": request_id, "reason": why})

    def park(self, call: Call, why: str) -> str:
        """Store a call until it is answered, and return its id; equal calls share one."""
        for parked, record in self._parked.items():
            if record["digest"] == call.digest:
                return parked
        parked = f"waiting-{uuid4().hex[:12]}"
        question = f"{call}\n  Asked because {why}."
        self._parked[parked] = {"digest": call.digest, "question": question, "answer": None}
        return parked

    def parked_answer(self, call: Call) -> tuple[str, Answer] | None:
        """Return the answer to a parked call with its id, and remove it: it counts once."""
        for parked, record in self._parked.items():
            if record["digest"] == call.digest and record["answer"] is not None:
                del self._parked[parked]
                return parked, Answer(record["answer"] is True, record["who"])
        return None

    def unpark(self, call: Call) -> None:
        """Remove a parked call, because the user is asked directly now."""
        for parked in [key for key, each in self._parked.items() if each["digest"] == call.digest]:
            del self._parked[parked]


def _forget_oldest(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > _MOST_KEPT:
        kept.popitem(last=False)
