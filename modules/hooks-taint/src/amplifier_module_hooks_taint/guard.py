"""The guard: asks before a tool that acts is called with text from an untrusted tool."""

from __future__ import annotations

import asyncio
import json
import logging
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

from amplifier_core import events
from amplifier_core.effects import declaration_of
from amplifier_core.models import HookResult
from amplifier_kit.notices import show
from amplifier_kit.widenings import widenings_of
from amplifier_module_hooks_taint.config import TaintConfig
from amplifier_module_hooks_taint.ledger import Evidence, Ledger

logger = logging.getLogger(__name__)

NAME = "hooks-taint"
FLAGGED = "taint:flagged"
BLIND = "taint:blind"
_HISTORY_SECONDS = 30.0
_CONTINUE = HookResult(action="continue")
_LONGEST_SHOWN = 2_000
_LONGEST_SNIPPET = 160


class _Call(NamedTuple):
    """What an event says about a call; missing fields are empty."""

    session_id: str
    call_id: str
    tool: str
    arguments: Any


class Guard:
    """Watches the results and calls of a session, and of all sessions forked from it."""

    def __init__(self, coordinator: Any, config: TaintConfig, ledger: Ledger) -> None:
        self._coordinator = coordinator
        self._config = config
        self._ledger = ledger

    async def hear_prompt(self, event: str, data: dict[str, Any]) -> HookResult:
        """Note what the user says."""
        prompt = _facts(data).get("prompt")
        if isinstance(prompt, str) and self._config.by == "words":
            self._ledger.hear(prompt)
        return _CONTINUE

    async def read_result(self, event: str, data: dict[str, Any]) -> HookResult:
        """Note what a tool returned, or how it failed, unless its output is trusted."""
        call = _call(data)
        facts = _facts(data)
        if self._config.by == "origin":
            if self._is_source(call):
                self._ledger.note(call.tool, call.call_id, await self._site(call))
        elif not self._is_trusted(call):
            was_blind = self._ledger.blind
            returned = [facts.get("result", facts.get("tool_result")), facts.get("error")]
            # In a thread: a megabyte takes a third of a second.
            await asyncio.to_thread(
                self._ledger.read, returned, call.tool, call.call_id, call.arguments
            )
            if self._ledger.blind and not was_blind:
                await self._announce_blindness(call)
        return _CONTINUE

    async def read_history(self, event: str, data: dict[str, Any]) -> HookResult:
        """Note what an earlier process read, if only the conversation was kept of it."""
        if self._ledger.is_new:
            try:
                # Not the handler's own limit: running out of time has to make the ledger blind.
                async with asyncio.timeout(_HISTORY_SECONDS):
                    messages = await self._coordinator.get("context").get_messages()
                for message in messages:
                    tool = str(message.get("name") or "")
                    call_id = str(message.get("tool_call_id") or "")
                    call = _Call(self._coordinator.session_id, call_id, tool, None)
                    if message.get("role") != "tool":
                        continue
                    if self._config.by == "origin":
                        if self._is_source(call):
                            self._ledger.note(tool, call_id)
                    elif not self._is_trusted(call):
                        self._ledger.read(message.get("content"), tool, call_id)
            except Exception:
                # Whatever a memory raises: what cannot be read is treated as tainted.
                logger.exception("history not read session=%s", self._coordinator.session_id)
                self._ledger.go_blind("what was read before cannot be found out")
        if self._ledger.blind:
            await self._announce_blindness(_call(data))
        return _CONTINUE

    async def check_call(self, event: str, data: dict[str, Any]) -> HookResult:
        """Ask about a call that acts on what was read; deny it if there is no user to ask."""
        call = _call(data)
        if not self._acts(call):
            return _CONTINUE
        exempt = [
            name
            for pattern, names in self._config.exempt_arguments.items()
            for name in names
            if fnmatchcase(call.tool, pattern)
        ]
        if self._config.by == "origin":
            evidence = await self._evidence_of_origin(call, exempt)
        else:
            evidence = self._ledger.evidence(call.arguments, exempt)
        if evidence is None and self._ledger.blind and "*" not in exempt:
            evidence = Evidence("", "an unknown origin", self._ledger.blind)
        if evidence is None:
            return _CONTINUE
        return await self._flag(call, data, evidence)

    async def _evidence_of_origin(self, call: _Call, exempt: list[str]) -> Evidence | None:
        """Return that text from outside was read; re-spelled words in a call would not show it."""
        # A page can ask for more of its own site: only that site gets to know what it asked for.
        origin = self._ledger.last_origin(besides=await self._site(call))
        if origin is None or "*" in exempt:
            return None
        return Evidence("", origin, "")

    async def _flag(self, call: _Call, data: dict[str, Any], evidence: Evidence) -> HookResult:
        snippet = _shown(evidence.snippet, _LONGEST_SNIPPET)
        facts = {
            "tool_name": call.tool,
            "tool_call_id": call.call_id,
            "argument": evidence.argument,
            "origin": evidence.origin,
            "snippet": snippet,
        }
        await self._hooks(call).emit(FLAGGED, facts)
        if self._config.by == "origin":
            why = (
                f"text from outside was read before ({evidence.origin}), and may have asked for it"
            )
            return await self._ask(call, data, facts, why)
        if evidence.argument:
            argument = f"argument {_shown(evidence.argument, 80)}"
        else:
            argument = "call"
        why = f"the {argument} derives from {evidence.origin}, not from what you said: {snippet}"
        return await self._ask(call, data, facts, why)

    async def _ask(
        self, call: _Call, data: dict[str, Any], facts: dict[str, Any], why: str
    ) -> HookResult:
        # With hooks-approval there is one question for both guards.
        concern = self._coordinator.get_capability("approval.concern")
        if concern is not None and concern(data, why) is True:
            return _CONTINUE
        if self._coordinator.approval_system is None:
            line = f"The call of {_shown(call.tool, 80)} was denied: {why}."
            show(self._coordinator, line, source=NAME)
            await self._hooks(call).emit(events.POLICY_VIOLATION, {**facts, "policy": NAME})
            return HookResult(action="deny", reason=f"{NAME}: {why}; there is nobody to ask")
        return HookResult(
            action="ask_user",
            approval_prompt=(
                f"Allow {_shown(call.tool, 80)} with {_shown(call.arguments, _LONGEST_SHOWN)}?\n"
                f"Asked because {why}."
            ),
            approval_options=["Allow once", "Deny"],
            approval_timeout=self._config.timeout_seconds,
            approval_default="deny",
        )

    def _tool(self, call: _Call) -> Any:
        session = self._ledger.sessions.get(call.session_id)
        if session is None:
            return None
        return session.get("tools", call.tool)

    def _is_trusted(self, call: _Call) -> bool:
        named = any(fnmatchcase(call.tool, each) for each in self._config.trusted_tools)
        return named or declaration_of(self._tool(call)).output_trusted

    def _is_source(self, call: _Call) -> bool:
        """Whether a call returns text from outside; a tool that declares nothing counts as such."""
        if self._is_trusted(call):
            return False
        tool = self._tool(call)
        # Calls of one tool can differ, such as commands of which some were given a network.
        reaches_outside = getattr(tool, "reaches_outside", None)
        if reaches_outside is not None:
            return reaches_outside(call.arguments) is not False
        return getattr(tool, "network", None) is not False

    async def _site(self, call: _Call) -> str:
        """Return the site whose pages are all that a call leads to; empty for any other call."""
        tool = self._tool(call)
        if getattr(tool, "network", None) is not True:
            return ""
        needs = await widenings_of(tool, call.arguments)
        if [each.kind for each in needs] != ["pages"]:
            return ""
        # Over http, anybody on the way can write the page and read what it asks for.
        is_open = needs[0].target.startswith("http://")
        return "" if is_open else needs[0].target

    def _acts(self, call: _Call) -> bool:
        """Whether a tool changes or sends something; an unknown tool counts as such."""
        tool = self._tool(call)
        network = getattr(tool, "network", None) is True
        effect = declaration_of(tool).effect
        # By origin, arguments are not compared, so any change could be what the text asked for.
        if self._config.by == "origin":
            harmful = ("idempotent", "unsafe")
        else:
            harmful = ("unsafe",)
        return network or effect in harmful

    def _hooks(self, call: _Call) -> Any:
        return self._ledger.sessions.get(call.session_id, self._coordinator).hooks

    async def _announce_blindness(self, call: _Call) -> None:
        why = self._ledger.blind
        line = f"Every call that changes or sends something is asked about from now on: {why}."
        show(self._coordinator, line, source=NAME)
        await self._hooks(call).emit(BLIND, {"reason": why})


def _facts(data: Any) -> dict[str, Any]:
    if isinstance(data, dict):
        return cast("dict[str, Any]", data)
    return {}


def _call(data: Any) -> _Call:
    facts = _facts(data)

    def text(name: str) -> str:
        value = facts.get(name)
        if isinstance(value, str):
            return value
        return ""

    return _Call(
        text("session_id"), text("tool_call_id"), text("tool_name"), facts.get("tool_input")
    )


def _shown(value: Any, longest: int) -> str:
    """Return a value as one line of ASCII, in which nothing can imitate the question itself."""
    text = json.dumps(value, sort_keys=True, default=str)
    left_out = len(text) - longest
    half = longest // 2
    if left_out <= 0:
        return text
    return f"{text[:half]} [{left_out} NOT SHOWN] {text[-half:]}"
