"""A live session and its children: recorded while they run, continued where their logs end."""

from __future__ import annotations

import asyncio
import logging
import sys
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from amplifier_core import events
from amplifier_core.errors import AmplifierError, SessionError, describe_error
from amplifier_core.session import AmplifierSession
from amplifier_foundation.errors import FoundationError, NoProviderError
from amplifier_foundation.guards import refuse_without_guard, with_required_guards
from amplifier_foundation.plan_shape import checked_plan
from amplifier_foundation.spawn.capabilities import offer_spawning
from amplifier_foundation.spawn.ended_children import SPAWNED, EndedChildren
from amplifier_journal.readings.plan_changes import plan_changes
from amplifier_journal.readings.state import SessionState, state_of
from amplifier_journal.recorder import FAILED, ChildLog, OpenChild, Recorder
from amplifier_kit.children.tasks import ABOUT
from amplifier_kit.history_repair import repair_history
from amplifier_kit.notices import absence_capability, show
from amplifier_kit.secrets.errors import scrub_error
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_kit.threads import open_in_thread
from amplifier_kit.valid_text import valid

if TYPE_CHECKING:
    from amplifier_foundation.store import SessionStore

logger = logging.getLogger(__name__)

NAME = "live"
PLAN_CHANGED = "session:plan_changed"
INCOMPLETE = "bundle:incomplete"
TAKEOVER = "session.takeover"
EVENTS = [FAILED, PLAN_CHANGED, INCOMPLETE, "session:rewound"]
_LONGEST_TITLE = 80
# How many changed settings a resumed session names.
_MOST_PLACES = 3


class LiveSession:
    """A recorded session. When `execute` returns, everything the turn did is on disk."""

    def __init__(
        self,
        session: AmplifierSession,
        recorder: Recorder,
        cost_before: Decimal | None = None,
        unpriced_before: int = 0,
    ) -> None:
        self.session = session
        self.recorder = recorder
        self.writer: Any = recorder.writer
        self._cost_before = cost_before
        self._unpriced_before = unpriced_before

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.session.session_id

    @property
    def turns(self) -> int:
        """How many turns the session has had, in all processes."""
        return self.recorder.turn

    @property
    def cost_usd(self) -> Decimal | None:
        """The known cost of all turns and children; None if no cost is known."""
        known = [each for each in (self._cost_before, self.recorder.cost_usd) if each is not None]
        if known:
            return sum(known, Decimal(0))
        return None

    @property
    def unpriced_calls(self) -> int:
        """How many model calls have an unknown cost, which `cost_usd` does not include."""
        return self._unpriced_before + self.recorder.unpriced_calls

    async def execute(self, prompt: str | list[dict[str, Any]]) -> str:
        """Run one turn and return the answer.

        The prompt is on disk before anything else happens. A request to cancel applies to this
        turn only.

        Raises:
            RecordingFailedError: the log cannot be written; no model was called after that.
        """
        prompt = valid(prompt)
        await self.recorder.begin_turn(prompt)
        if not self.writer.metadata.get("title"):
            # Now, and not after the turn: a session killed in its first turn has a title too.
            await self.update_metadata()
        answer = error = None
        try:
            # The kernel passes a prompt to the loop as it is, and ours take blocks of content.
            answer = await self.session.execute(cast("str", prompt))
            return answer
        except BaseException as raised:
            # Providers repeat what they were sent, keys included. Changed in place, because the
            # caller matches on the type and may print the exception too.
            scrub_error(raised, self.recorder.without_secrets)
            error = raised
            raise
        finally:
            await self.recorder.end_turn(answer, error)
            # Otherwise the next turn would be cancelled at its start.
            self.session.coordinator.cancellation.reset()
            await self.update_metadata()

    async def cancel(self, immediate: bool = False) -> None:
        """Ask the running turn to stop, after the current step or immediately."""
        await self.session.coordinator.request_cancel(immediate)

    async def update_metadata(self, status: str | None = None) -> None:
        """Update the metadata that lists show; a failure is shown and does not end the turn.

        `status` overrides the status of the session.
        """
        cost = self.cost_usd
        title = self.recorder.first_prompt
        # With unpriced calls the cost is unknown: the sum of the others would look like all of it.
        fields: dict[str, Any] = {
            "turns": self.turns,
            "status": status or self.session.status.status,
            "cost_usd": None if cost is None or self.unpriced_calls else str(cost),
        }
        if title is not None and not self.writer.metadata.get("title"):
            fields["title"] = _title_of(self.recorder.without_secrets(title))
        try:
            await asyncio.to_thread(self.writer.update, **fields)
        except Exception as error:
            # Lists are a convenience; the log is complete without them.
            logger.exception("metadata not updated session=%s", self.session_id)
            line = f"The list of sessions does not show this turn: {error}"
            show(self.session.coordinator, line, source=NAME)


@asynccontextmanager
async def open_live(
    plan: dict[str, Any],
    *,
    store: SessionStore,
    project: Path,
    session_id: str | None = None,
    resume: bool = False,
    takeover: bool = False,
    resolver: Any = None,
    approval_system: Any = None,
    display_system: Any = None,
    bundle: str | None = None,
    instructions: Iterable[Any] = (),
    mention_resolver: Any = None,
    missing: Iterable[Any] = (),
    trusted: bool = False,
    capabilities: Mapping[str, Any] | None = None,
    announce: Callable[[bytes], None] | None = None,
) -> AsyncGenerator[LiveSession]:
    """Open a recorded session: a new one, or with `resume` the one of `session_id`.

    A resumed session has the messages of its log, repaired, and its `session_state`; a changed plan
    is shown. A new one begins with `instructions`. The `missing` parts of its bundle are announced.
    Whether the project is `trusted` is told to modules, which may then use its files;
    `capabilities` are told to them as well. `announce` gets each line of the log as it is written.

    Raises:
        GuardError, PlanError: a guard did not mount; the plan is malformed.
        SessionHeldError: another process writes the session; with `takeover` it is taken over.
    """
    plan = with_required_guards(checked_plan(plan))
    session = AmplifierSession(
        plan,
        session_id=session_id or str(uuid.uuid4()),
        approval_system=approval_system,
        display_system=display_system,
        is_resumed=resume,
    )
    await _equip(session.coordinator, store, project, resolver, mention_resolver)
    session.coordinator.register_capability("project.trusted", trusted)
    for name, value in (capabilities or {}).items():
        session.coordinator.register_capability(name, value)
    if takeover:
        # A memory with a file of its own has to take that file over as well.
        session.coordinator.register_capability(TAKEOVER, True)
    scrubber = MessageScrubber(session.coordinator)
    writer = await _open_writer(store, session, project, scrubber, resume, takeover, bundle)
    writer.announce = announce
    try:
        # After the lease is taken, when no other process can append any more.
        state = await asyncio.to_thread(_read_state, store, session.session_id, resume)
        open_child = child_logs(store, project, _update_child)
        live = _recorded(session, writer, scrubber, state, open_child)
        try:
            async with _opening_listed(live):
                await _mount(live, plan, resume, bundle, missing)
                await (_restore(live, state) if resume else _instruct(live, list(instructions)))
            yield live
        finally:
            # The recorder stays until after the cleanup, whose events are recorded too.
            await session.cleanup()
            live.recorder.detach()
    finally:
        await asyncio.to_thread(writer.close)


async def _equip(
    coordinator: Any, store: SessionStore, project: Path, resolver: Any, mention_resolver: Any
) -> None:
    """Register what modules use to find files, other modules and children."""
    offer_spawning(coordinator, EndedChildren(store))
    coordinator.register_capability("session.working_dir", str(project))
    coordinator.register_capability("mention_resolver", mention_resolver)
    if resolver is not None:
        await coordinator.mount("module-source-resolver", resolver)


def _recorded(
    session: AmplifierSession,
    writer: Any,
    scrubber: MessageScrubber,
    state: SessionState,
    open_child: OpenChild,
) -> LiveSession:
    """Return the session with a recorder and restored `session_state`; nothing is mounted yet."""
    coordinator = session.coordinator
    coordinator.register_contributor("observability.events", NAME, EVENTS.copy)
    coordinator.register_capability("session.folder", str(writer.folder))
    coordinator.session_state.update(valid(state.values))
    recorder = Recorder(
        coordinator,
        writer,
        scrubber,
        open_child=open_child,
        opening=state.openings + 1,
        turn=state.turns,
        known=state.digests,
    )
    return LiveSession(session, recorder, state.cost_usd, state.unpriced_calls)


@asynccontextmanager
async def _opening_listed(live: LiveSession) -> AsyncGenerator[None]:
    """List a session that fails to open as `failed`, unless it has turns."""
    try:
        yield
    except BaseException:
        # `last` skips sessions that failed without a turn; one with turns can be continued.
        if not live.turns:
            await live.update_metadata("failed")
        raise
    if not live.turns and live.writer.metadata.get("status") == "failed":
        await live.update_metadata()


async def _mount(
    live: LiveSession,
    plan: dict[str, Any],
    resume: bool,
    bundle: str | None,
    missing: Iterable[Any],
) -> None:
    """Mount the modules, and record the outcome, success or failure."""
    await live.recorder.listen()
    unready = _unready_modules(live.session.coordinator)
    try:
        await live.session.initialize()
        # The kernel only announces a failing `on_session_ready`; for a guard that is not enough.
        refuse_without_guard(plan, unready, "; ".join(unready.values()))
        refuse_without_provider(live.session, plan)
    except BaseException as error:
        scrub_error(error, live.recorder.without_secrets)
        live.recorder.note_failed_opening(error)
        if isinstance(error, SessionError):
            modules = live.session.status.modules
            failed = [each.module_id for each in modules if each.state == "failed"]
            refuse_without_guard(plan, failed, _cause_of(error))
        raise
    await live.recorder.attach(plan, resumed=resume, bundle=bundle)
    if facts := [each._asdict() for each in missing]:
        await live.session.coordinator.hooks.emit(INCOMPLETE, {"missing": facts})


def refuse_without_provider(session: AmplifierSession, plan: dict[str, Any]) -> None:
    """Raise NoProviderError if a plan has providers and none of them was mounted."""
    coordinator = session.coordinator
    named = [str(each.get("module")) for each in plan.get("providers") or ()]
    if not named or coordinator.get("providers"):
        return
    failed = {each.module_id: str(each.error) for each in session.status.modules if each.error}
    reasons: dict[str, str] = {}
    for module_id in named:
        remedy = coordinator.get_capability(absence_capability(module_id))
        reasons[module_id] = remedy or failed.get(module_id) or "it mounted nothing"
    raise NoProviderError(
        "No model can answer: no provider was mounted.",
        why="; ".join(f"{module_id}: {reason}" for module_id, reason in reasons.items()) + ".",
        fix="amplifier init",
    )


def _unready_modules(coordinator: Any) -> dict[str, str]:
    """Return a dict that collects modules whose `on_session_ready` fails, with their errors."""
    unready: dict[str, str] = {}

    async def note(_: str, data: dict[str, Any]) -> None:
        unready[str(data.get("module_id"))] = str(data.get("error"))

    coordinator.hooks.register(events.MODULE_ON_SESSION_READY_FAILED, note, -sys.maxsize, NAME)
    return unready


def _cause_of(error: BaseException) -> str:
    """Return why a module failed; our own errors already are sentences."""
    cause = error.__cause__ or error
    is_ours = isinstance(cause, AmplifierError | FoundationError)
    if is_ours:
        return str(cause)
    return describe_error(cause)


async def _open_writer(
    store: SessionStore,
    session: AmplifierSession,
    project: Path,
    scrubber: MessageScrubber,
    resume: bool,
    takeover: bool,
    bundle: str | None,
) -> Any:
    if resume:
        return await open_in_thread(
            store.open, session.session_id, takeover=takeover, scrub=scrubber.scrub
        )
    return await open_in_thread(
        store.create,
        session.session_id,
        project=project,
        metadata={"status": "running", "bundle": bundle},
        scrub=scrubber.scrub,
    )


async def _update_child(session: Any, recorder: Recorder, before: SessionState) -> None:
    live = LiveSession(session, recorder, before.cost_usd, before.unpriced_calls)
    await live.update_metadata()


def _read_state(store: SessionStore, session_id: str, resume: bool) -> SessionState:
    """Return the state of a session, with the costs of its children added."""
    if not resume:
        return SessionState()
    state = state_of(store.read(session_id).records())
    for child_id in state.children:
        try:
            child = _read_state(store, child_id, True)
        except Exception:
            # A child's log may have been deleted or damaged; the parent can be resumed without it.
            logger.exception("child not read session=%s child=%s", session_id, child_id)
            continue
        if child.cost_usd is not None:
            state.cost_usd = child.cost_usd + (state.cost_usd or 0)
        state.unpriced_calls += child.unpriced_calls
    return state


async def _restore(live: LiveSession, state: SessionState) -> None:
    """Load the log's messages into the memory; if it stores its own, record those in the log."""
    coordinator = live.session.coordinator
    recorder = live.recorder
    context: Any = coordinator.get("context")
    # Logs of older versions may have lone surrogates in them, which no server accepts.
    messages, repairs = repair_history(valid(state.messages))
    own: list[dict[str, Any]] = await context.get_messages()
    is_valid = valid(own) is own
    # Paused, because restored messages are in the log already.
    recorder.is_paused = True
    try:
        if own and state.was_rewound:
            await context.clear()
            own = []
        if own:
            # A memory that stores messages itself wrote them before the log did: it misses none.
            messages, repairs = repair_history(valid(own))
        if not own or repairs or not is_valid:
            await context.set_messages(messages)
            if await context.get_messages() != messages:
                # This memory prefers its own file to what it is given; `clear` empties the file.
                await context.clear()
                await context.set_messages(messages)
    finally:
        recorder.is_paused = False
    if messages != state.messages:
        await recorder.note_messages(messages, reason="resumed")
    if repairs:
        facts = [repair._asdict() for repair in repairs]
        await coordinator.hooks.emit(events.CONTEXT_REPAIRED, {"repairs": facts})
        count = len(repairs)
        line = f"The last turn was cut short: {count} tool call(s) without a result were closed."
        show(coordinator, line, "info", source=NAME)
    changes = plan_changes(state.plan, recorder.opened_plan)
    if changes:
        await coordinator.hooks.emit(PLAN_CHANGED, {"changes": changes})
        # The values are in the log; as JSON they would tell a user little.
        places = [each.partition(": ")[0] for each in changes]
        more = f", and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        named = ", ".join(places[:_MOST_PLACES])
        show(coordinator, f"The session continues with other settings: {named}{more}.", source=NAME)


async def _instruct(live: LiveSession, instructions: list[Any]) -> None:
    """Put all instructions into one system message, with the origin of each in its metadata."""
    if not instructions:
        return
    parts = [{"origin": each.origin, "chars": len(each.text)} for each in instructions]
    message = {
        "role": "system",
        "content": "\n\n".join(each.text for each in instructions),
        "metadata": {"source": "bundle", "parts": parts},
    }
    context: Any = live.session.coordinator.get("context")
    await context.add_message(message)


def _title_of(prompt: str) -> str:
    line = next(iter(prompt.strip().splitlines()), "")
    if len(line) <= _LONGEST_TITLE:
        return line
    return f"{line[: _LONGEST_TITLE - 1]}…"


Update = Callable[[Any, Recorder, SessionState], Awaitable[None]]
"""Brings what lists show of a session up to date: its recorder, and where it stood before."""


def child_logs(store: SessionStore, project: Path, update: Update) -> OpenChild:
    """Return the function that opens the log of a child."""
    ended = EndedChildren(store)

    def open_child(parent: Recorder, coordinator: Any, scrubber: MessageScrubber) -> ChildLog:
        # For children that a module forked itself; all others have this before they mount.
        offer_spawning(coordinator, ended)
        session_id: str = coordinator.session_id
        before = SessionState()
        if coordinator.session.is_resumed:
            before = state_of(store.read(session_id).records())
            writer = store.open(session_id, scrub=scrubber.scrub)
        else:
            metadata = _metadata(parent, coordinator, scrubber)
            writer = store.create(
                session_id, project=project, metadata=metadata, scrub=scrubber.scrub
            )
        coordinator.register_capability("session.folder", str(writer.folder))

        async def close(child: Recorder) -> None:
            await update(coordinator.session, child, before)
            await asyncio.to_thread(writer.close)

        return ChildLog(writer, close, before)

    return open_child


def _metadata(parent: Recorder, coordinator: Any, scrubber: MessageScrubber) -> dict[str, Any]:
    metadata = {"status": "running", "parent_id": parent.coordinator.session_id}
    spawned: dict[str, Any] | None = coordinator.get_capability(ABOUT)
    if spawned is None:
        return metadata
    return {**metadata, SPAWNED: scrubber.scrub(spawned)}
