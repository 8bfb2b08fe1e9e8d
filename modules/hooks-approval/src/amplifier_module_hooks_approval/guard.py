"""The guard of one session: decides every tool call before it runs, and denies if in doubt."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from amplifier_core.effects import Effect, declaration_of
from amplifier_core.models import HookResult
from amplifier_kit.questions import Suggestion, preview_of
from amplifier_kit.texts import shorten
from amplifier_kit.widenings import CallScope, Widening, call_scopes_of, widenings_of
from amplifier_module_hooks_approval.broker import NAME, Answer, Asked, Broker
from amplifier_module_hooks_approval.config import ApprovalConfig, Scope
from amplifier_module_hooks_approval.grants import Grant, GrantsError
from amplifier_module_hooks_approval.modes import allowed_by, denied_by, only_reads
from amplifier_module_hooks_approval.rendering import CallView
from amplifier_module_hooks_approval.rules import (
    Call,
    RuleBook,
    Ruling,
    call_from,
    canonical,
    described,
)
from amplifier_sandbox.visible_text import exact

_LONGEST_MATCH = 1_000  # of a call in the list of grants, beside its digest
_CONTINUE = HookResult(action="continue")


def _needed(widening: Widening) -> str:
    return f"it needs {widening}"


def _new_id() -> str:
    return f"grant-{uuid4().hex[:12]}"


def _about(offer: Grant, **what: Any) -> Grant:
    """Return a grant about something else, wherever and as long as `offer` would apply."""
    no_call = {"digest": None, "arguments": dict[str, str]()}
    return offer.model_copy(update={"id": _new_id(), **no_call, **what})


def _for_widening(offer: Grant, widening: Widening) -> Grant:
    about = {"widens": widening.kind, "target": widening.target, "matches": str(widening)}
    return _about(offer, **about)


def _for_scope(offer: Grant, scope: CallScope) -> Grant:
    return _about(offer, within=scope.key, matches=exact(scope.words))


def _by_grant(grant: Grant) -> Ruling:
    end = f"{grant.until:%Y-%m-%d %H:%M %Z}"
    words = f"grant {grant.id} by {grant.who} until {end}: {grant.matches}"
    return Ruling(grant.action, "grant", words)


def _with_note(result: Any, note: str) -> Any:
    """Return a result of a tool with a note for the model."""
    if not isinstance(result, dict):
        return f"[{note}]\n{result}"
    facts = cast("dict[str, Any]", result)
    output: Any = facts.get("output")
    if isinstance(output, dict):
        return {**facts, "output": {"note": note, **cast("dict[str, Any]", output)}}
    if output is None:
        return {**facts, "output": {"note": note, "error": facts.get("error")}}
    return {**facts, "output": f"[{note}]\n{output}"}


class Guard:
    """Applies the rules of its session; the broker asks the user and stores grants."""

    def __init__(self, coordinator: Any, config: ApprovalConfig, broker: Broker) -> None:
        self._config = config
        self._broker = broker
        self._book = RuleBook(config, broker.now)
        folder = coordinator.get_capability("session.working_dir")
        self._project = str(Path(folder if isinstance(folder, str) else ".").resolve())
        self._open = {self._as_asked(each) for each in config.open}

    async def deny_early(self, event: str, data: dict[str, Any]) -> HookResult:
        """Deny what a rule forbids, before other hooks do any work for it."""
        call = call_from(data)
        ruling = self._book.denial(call)
        if ruling is None:
            return _CONTINUE
        return await self._close(call, ruling)

    async def decide(self, event: str, data: dict[str, Any]) -> HookResult:
        """Decide about a call as the other hooks have left it: what is asked is what runs."""
        call = call_from(data)
        effect = self._effect(call)
        concerns = self._broker.concerns_about(call)
        widenings = await self._widenings(call)
        try:
            missing = self._missing(call, effect, widenings)
            ruling = self._ruling(call, effect, concerns, missing)
            ruling = self._by_mode(call, effect, ruling, missing)
            scopes = self._scopes(call, ruling)
            granted = self._broker.grants.for_scope(scopes, self._project, self._broker.now())
        except GrantsError as error:
            self._broker.tell(call, f"Every tool call is denied: {error}.", "error")
            return await self._close(call, Ruling("deny", "failure", f"{error}; repair it"))
        if granted is not None:
            ruling = _by_grant(granted)
        if ruling.action != "ask":
            return await self._close(call, ruling)
        if self._broker.was_just_allowed(call):
            return _CONTINUE
        # Nothing is offered to remember with a concern: it overrides a grant that allows.
        offers = {} if concerns else self._offers(call, ruling, missing, scopes)
        self._broker.forget_edit(call)
        result = await self._ask(
            call, effect, ruling, offers, suggests=self._suggestion(concerns, missing)
        )
        edited = self._broker.edit_of(call)
        if result.action == "deny" or edited is None:
            return result
        return HookResult(action="modify", data={**data, "tool_input": edited})

    async def tell_model(self, event: str, data: dict[str, Any]) -> HookResult:
        """Tell the model with the result of a call that the user changed it."""
        call = call_from(data)
        if self._broker.edit_of(call) is None:
            return _CONTINUE
        self._broker.forget_edit(call)
        note = f"The user changed this call before it ran. It ran with: {canonical(call.arguments)}"
        result = _with_note(data.get("result"), note)
        return HookResult(action="modify", data={**data, "result": result, "tool_result": result})

    async def _widenings(self, call: Call) -> list[Widening]:
        """Return what the call needs beyond the boundary of its sandbox."""
        return await widenings_of(self._tool(call), call.arguments)

    def _scopes(self, call: Call, ruling: Ruling) -> list[CallScope]:
        """Return the scopes of a call that an answer may be about, the one to offer first."""
        # A rule that says `ask`, a concern and a widening are about more than the scope is.
        is_usual = (ruling.action, ruling.by) == ("ask", "default")
        if not is_usual or self._is_demanded(call):
            return []
        return call_scopes_of(self._tool(call), call.arguments)

    def _missing(self, call: Call, effect: Effect, widenings: list[Widening]) -> list[Widening]:
        """Return the widenings that neither the configuration nor a grant allows."""
        asked = [each for each in widenings if not self._is_open(each)]
        if self._book.rule(call, effect).action == "allow":
            # A rule about a call is about its arguments, and the URL of a page is one.
            asked = [each for each in asked if each.kind != "pages"]
        return self._broker.grants.missing(asked, self._project, self._broker.now())

    def _as_asked(self, opened: str) -> str:
        """Return an entry of `open` as a widening is named: a path is whole, without `..`."""
        kind, _, target = opened.partition(":")
        if kind != "write":
            return opened
        path = os.path.normpath(Path(self._project) / Path(target).expanduser())
        return f"write:{path}"

    def _is_open(self, widening: Widening) -> bool:
        target = self._target(widening)
        name = f"{widening.kind}:{target}" if target else widening.kind
        return name in self._open

    def _short_name(self, widening: Widening) -> str:
        """Return how `open` names a widening: `background`, `network:example.org`, `write:.git`."""
        target = self._target(widening).removeprefix(f"{self._project}/")
        return f"{widening.kind}:{target}" if target else widening.kind

    def _target(self, widening: Widening) -> str:
        # The addresses of registries, in brackets, are not written by hand.
        if widening.kind == "network":
            return widening.target.partition(" (")[0]
        return widening.target

    def _tool(self, call: Call) -> Any:
        session = self._broker.sessions.get(call.session_id)
        return None if session is None else session.get("tools", call.tool)

    def _by_mode(
        self, call: Call, effect: Effect, ruling: Ruling, missing: list[Widening]
    ) -> Ruling:
        """Return what the mode makes of a ruling; a rule that says `ask` is the user's own."""
        tool = self._tool(call)
        mode = self._broker.mode
        reads = only_reads(tool, call, effect)
        denial = denied_by(mode, ruling, reads=reads)
        if denial is not None and ruling.action != "deny":
            return denial
        is_settled = ruling.action != "ask" or ruling.by in ("rule", "boundary")
        if is_settled or missing or self._is_demanded(call):
            return ruling
        allowed = allowed_by(mode, tool)
        if allowed is None and reads and ruling.by == "default":
            return Ruling("allow", "default", "the call only reads")
        return allowed or ruling

    def _effect(self, call: Call) -> Effect:
        """Return the declared effect of the tool; an unknown tool is `unsafe`."""
        if call.session_id not in self._broker.sessions or self._is_demanded(call):
            return "unsafe"
        return declaration_of(self._tool(call)).effect

    def _is_demanded(self, call: Call) -> bool:
        """Whether the tool, or the session, demands a question about each of its calls."""
        session = self._broker.sessions.get(call.session_id)
        named = () if session is None else session.session_state.get("require_approval_tools") or ()
        return call.tool in named or getattr(self._tool(call), "require_approval", None) is True

    def _ruling(
        self, call: Call, effect: Effect, concerns: list[str], missing: list[Widening]
    ) -> Ruling:
        ruling = self._book.rule(call, effect)
        grant = self._broker.grants.find(call, self._project, self._broker.now())
        if ruling.action == "deny":
            return ruling
        # A concern overrides what allows: tainted text may have asked for a remembered call.
        if concerns and (grant is None or grant.action == "allow"):
            return Ruling("ask", "concern", "; ".join([*concerns, *map(_needed, missing)]))
        # Rules and patterns are about the call inside its sandbox. Only a grant for exactly this
        # call, which showed what it needs, includes its widenings.
        if missing and (grant is None or grant.digest is None):
            needs = [self._short_name(each) for each in missing]
            # Opening the sandbox is not enough if the call would be asked about inside of it.
            inside = self._by_mode(call, effect, ruling, [])
            if inside.action == "ask" and grant is None:
                needs.insert(0, call.tool)
            words = "; ".join(map(_needed, missing))
            return Ruling("ask", "boundary", words, needs=tuple(needs))
        if grant is None or grant.action == ruling.action:
            return ruling
        return _by_grant(grant)

    async def _ask(
        self,
        call: Call,
        effect: Effect,
        ruling: Ruling,
        offers: dict[str, list[Grant]],
        *,
        suggests: Suggestion,
    ) -> HookResult:
        if (parked := self._broker.parked_answer(call)) is not None:
            return await self._conclude(call, *parked)
        if not self._broker.askers():
            return await self._without_anybody(call, ruling)
        self._broker.unpark(call)
        usual = next(iter(offers.values()), list[Grant]())
        covers = " and ".join(each.words for each in usual)
        lasts = usual[0].lasts if usual else ""
        view = await self._view(call, ruling, suggests)
        request_id, answer = await self._broker.ask(
            Asked(call, ruling.words, covers, tuple(offers), lasts, view),
            effect,
            timeout=self._config.timeout_seconds,
            batch=self._config.batch_seconds,
        )
        reads = only_reads(self._tool(call), call, effect)
        denial = denied_by(self._broker.mode, ruling, reads=reads)
        if answer.approved and denial is not None:
            # The user has changed the mode while the question was open.
            return await self._close(call, denial, request_id)
        if answer.remember:
            for offer in offers[answer.reach or next(iter(offers))]:
                await self._remember(call, offer, answer)
        return await self._conclude(call, request_id, answer)

    def _suggestion(self, concerns: list[str], missing: list[Widening]) -> Suggestion:
        # Text from outside may have asked for it, or nothing limits what it does.
        if concerns or any(each.kind == "outside_sandbox" for each in missing):
            return "deny"
        # In this mode the user wants to be asked as little as possible.
        return "lasting" if self._broker.mode == "auto" else "once"

    async def _view(self, call: Call, ruling: Ruling, suggests: Suggestion) -> CallView:
        """Return how the call is shown to the user."""
        tool = self._tool(call)
        schema: Any = getattr(tool, "input_schema", None)
        if not isinstance(schema, dict):
            schema = {}
        properties: Any = cast("dict[str, Any]", schema).get("properties")
        if not isinstance(properties, dict):
            properties = {}
        preview = None
        # A run that is repeated finds its answer by the words of the question, and a preview
        # depends on the files as they are now.
        if not self._broker.asks_again:
            preview = await preview_of(tool, call.arguments)
        return CallView(
            preview=preview,
            order=tuple(cast("dict[str, Any]", properties)),
            agent=self._broker.agent_of(call),
            tells_why=ruling.by != "default",
            suggests=suggests,
        )

    async def _without_anybody(self, call: Call, ruling: Ruling) -> HookResult:
        tool = canonical(call.tool)
        if self._config.headless == "park":
            parked = self._broker.park(call, ruling.words)
            self._broker.tell(call, f"The call of {tool} waits for an answer: {parked}.")
            await self._broker.announce("approval:required", call, parked, ruling.words)
            words = f"it waits for approval as {parked}; make exactly this call again afterwards"
            return await self._close(call, Ruling("deny", "nobody", words), parked)
        self._broker.tell(call, f"The call of {tool} was denied: there is nobody to ask.")
        words = f"it needs approval ({ruling.words}) and there is nobody to ask"
        by = ruling.by if ruling.by in ("concern", "boundary") else "nobody"
        return await self._close(call, Ruling("deny", by, words, needs=ruling.needs))

    async def _conclude(self, call: Call, request_id: str, answer: Answer) -> HookResult:
        session = self._broker.coordinator_of(call)
        if answer.by in ("nobody", "failure"):
            tool = canonical(call.tool)
            if answer.by == "nobody":
                way = f" (`timeout_seconds` of {NAME})"
            else:
                way = ""
            self._broker.tell(call, f"The call of {tool} was denied: {answer.reason}{way}.")
            ruling = Ruling("deny", "failure", answer.reason)
        # Before the answer itself: a yes that comes after a cancellation must not run the call.
        elif session.cancellation.is_cancelled:
            words = "the session was cancelled while the question was open"
            ruling = Ruling("deny", "failure", words)
        elif answer.approved and answer.arguments is not None:
            call = replace(call, arguments=answer.arguments)
            # Rules that deny apply to what the user wrote, too.
            denial = self._book.denial(call)
            if denial is None:
                self._broker.note_edit(call)
            ruling = denial or Ruling("allow", "user", "allowed by the user, who changed it")
        else:
            said = "allowed" if answer.approved else "denied"
            because = f": {answer.reason}" if answer.reason else ""
            who = "the user" if answer.by == "user" else answer.by
            words = f"{said} by {who}{because}"
            ruling = Ruling("allow" if answer.approved else "deny", "user", words)
        return await self._close(call, ruling, request_id)

    async def _close(self, call: Call, ruling: Ruling, request_id: str | None = None) -> HookResult:
        self._broker.note(call, ruling)
        if ruling.action == "deny":
            await self._broker.announce("approval:denied", call, request_id, ruling.words)
            return HookResult(action="deny", reason=f"{NAME}: {ruling.words}")
        if ruling.by != "default":
            await self._broker.announce("approval:granted", call, request_id, ruling.words)
        return _CONTINUE

    def _offers(
        self, call: Call, ruling: Ruling, missing: list[Widening], scopes: list[CallScope]
    ) -> dict[str, list[Grant]]:
        """Return the grants that a lasting answer means, by how far it reaches."""
        reaches = self._reaches(ruling)
        offers = {reach: self._offer(call, ruling, reach) for reach in reaches}
        if any(each.kind == "outside_sandbox" for each in missing):
            # Outside of the sandbox there is no boundary left that a grant could be about.
            return {reaches[0]: [offers[reaches[0]]]}
        if missing:
            return {
                reach: [_for_widening(offer, each) for each in missing]
                for reach, offer in offers.items()
            }
        if scopes:
            return {reach: [_for_scope(offer, scopes[0])] for reach, offer in offers.items()}
        return {reach: [offer] for reach, offer in offers.items()}

    def _reaches(self, ruling: Ruling) -> list[Scope]:
        """Return how far a lasting answer may reach, the configured first."""
        if ruling.rule is not None and ruling.rule.scope is not None:
            return [ruling.rule.scope]
        usual = self._config.remember_scope
        return [usual, "project" if usual == "session" else "session"]

    def _offer(self, call: Call, ruling: Ruling, scope: Scope) -> Grant:
        """Return a grant for the pattern of the rule, or for exactly this call."""
        rule = ruling.rule
        made = self._broker.now()
        # A rule without arguments would cover every call of the tool, which nobody was shown.
        pattern = rule if rule is not None and rule.arguments else None
        exactly = shorten(str(call), _LONGEST_MATCH)
        return Grant(
            id=_new_id(),
            action="allow",
            tool=pattern.tool if pattern else call.tool,
            arguments=pattern.arguments if pattern else {},
            digest=None if pattern else call.digest,
            matches=described(pattern.tool, pattern.arguments) if pattern else exactly,
            scope=scope,
            project=self._project if scope == "project" else None,
            until=made + timedelta(seconds=self._config.remember_seconds),
            who="nobody",
            made=made,
        )

    async def _remember(self, call: Call, offer: Grant, answer: Answer) -> None:
        action = "allow" if answer.approved else "deny"
        grant = offer.model_copy(update={"action": action, "who": answer.by})
        if not answer.approved and grant.within is not None:
            # A no is about the call that was shown.
            exactly = shorten(str(call), _LONGEST_MATCH)
            grant = _about(grant, within=None, digest=call.digest, matches=exactly)
        try:
            await asyncio.to_thread(self._broker.grants.add, grant)
        except GrantsError as error:
            self._broker.tell(call, f"The answer goes for this call only: {error}.")
