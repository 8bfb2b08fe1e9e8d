"""Open a session, run one turn and report it, for `amplifier run`."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from amplifier_cli.answer_stream import AnswerStream, can_stream
from amplifier_cli.attention import Attention
from amplifier_cli.failures import (
    BUDGET,
    CANCELLED,
    GENERAL,
    TRUST,
    described,
    exit_code_of,
)
from amplifier_cli.failures import report as show_error
from amplifier_cli.kept_log import KeptLog, keeping_log
from amplifier_cli.lock_prompt import Answer, choose
from amplifier_cli.output import control_terminal, say, say_json, styled
from amplifier_cli.record_stream import RecordStream, refuse_option
from amplifier_cli.render.plain import cost_text, message_of, one_line, took
from amplifier_cli.terminal import fitted, is_terminal, notice, screen_width
from amplifier_cli.terminal_prompts import Notices, TerminalApproval
from amplifier_cli.turn_report import TurnReport, denial_of, guard_failure, is_guard_failure, listed
from amplifier_foundation.errors import GuardError, SettingsError
from amplifier_foundation.prepare import (
    PreparedSession,
    SessionOptions,
    open_session,
    prepare_session,
)
from amplifier_foundation.session_options import opens_sandbox
from amplifier_foundation.short_ids import short_id
from amplifier_foundation.store.errors import SessionHeldError
from amplifier_sandbox.platforms.signals import on_signals
from amplifier_sandbox.visible_text import json_text

if TYPE_CHECKING:
    from decimal import Decimal

    from amplifier_foundation.live import LiveSession

__all__ = ["RunCommand"]

_LOG_NAME = "run.log"
_EXIT_CODES = {"completed": 0, "denied": TRUST, "cancelled": CANCELLED}


class RunCommand:
    """Runs one prompt and prints the result."""

    def __init__(
        self,
        options: SessionOptions,
        resume: str | None,
        when_held: Answer | None,
        *,
        as_json: bool,
        quiet: bool,
        events: bool = False,
    ) -> None:
        self._options = options
        self._resume = resume
        self._when_held: Answer | None = when_held
        self._as_json = as_json
        self._quiet = quiet
        self._report = TurnReport()
        self._stream = AnswerStream()
        self._records = RecordStream() if events else None
        self._session_id: str | None = None
        self._takeover = False
        self._denied: list[dict[str, Any]] = []
        self._unpriced = 0
        self._attention = Attention(control_terminal, {})
        # Replaced by the session's, which knows its keys.
        self._scrub: Callable[[str], str] = str

    def run(self, prompt: str) -> int:
        """Run the prompt and return the exit code."""
        try:
            return self._run_or_choose(prompt)
        except Exception as error:
            # With --json, stdout has exactly one JSON object, errors included.
            if not self._as_json:
                self._stream.end_line()
                raise
            what, why, fix = described(error)
            failure = {"what": what, "why": why, "next": fix}
            say_json({"error": failure, "session_id": self._session_id})
            return exit_code_of(error)

    def _run_or_choose(self, prompt: str) -> int:
        try:
            return asyncio.run(self._run(prompt))
        except SessionHeldError as error:
            answer = choose(error, self._when_held)
            if answer == "watch":
                if self._records is not None:
                    raise refuse_option("--watch") from error
                from amplifier_cli.commands.session_show import watch  # noqa: PLC0415 - rare

                watch.main([error.session_id], standalone_mode=False)
                return 0
            if answer == "fork":
                from amplifier_cli.commands.session_fork import fork_session  # noqa: PLC0415 - rare

                self._resume = fork_session(error.session_id)
            self._takeover = answer == "take-over"
            return asyncio.run(self._run(prompt))

    async def _run(self, prompt: str) -> int:
        resumed = None
        options = self._options
        if self._resume is not None:
            from amplifier_cli.sessions import find_session, with_own_bundle  # noqa: PLC0415 - most runs are new

            resumed = self._session_id = find_session(self._resume)
            options = with_own_bundle(options, resumed)
        ready = await prepare_session(options)
        self._attention = Attention(control_terminal, ready.terminal)
        self._introduce(ready)
        with keeping_log() as log:
            return await self._run_session(ready, resumed, prompt, log)

    async def _run_session(
        self, ready: PreparedSession, resumed: str | None, prompt: str, log: KeptLog
    ) -> int:
        async with open_session(
            ready,
            session_id=resumed,
            resume=resumed is not None,
            takeover=self._takeover,
            approval_system=TerminalApproval(self._attention) if is_terminal() else None,
            display_system=Notices(quiet=self._quiet, before=self._stream.end_line),
            announce=None if self._records is None else self._records.write,
        ) as live:
            log.write_to(live.writer.folder / _LOG_NAME, live.recorder.without_secrets)
            self._session_id = live.session_id
            self._listen(live)
            try:
                self._check_named_tools(live.session.coordinator.get("tools"))
            except SettingsError:
                # `last` skips a session that failed without a turn.
                if not live.turns:
                    await live.update_metadata("failed")
                raise
            # A resumed session has the cost of its earlier runs already.
            before = live.cost_usd
            began = monotonic()
            unpriced_before = live.unpriced_calls
            try:
                answer = await self._execute(live, prompt)
            except Exception as error:
                # A guard that failed is the reason why the turn did.
                if self._report.failed_guards:
                    raise self._trouble_in(live) or error from error
                raise
            cost = live.cost_usd
            self._unpriced = live.unpriced_calls - unpriced_before
            trouble = self._trouble_in(live)
            if is_terminal():
                self._attention.tell_end(began)
        if cost is not None and before is not None:
            cost -= before
        return self._tell(ready, answer, cost, trouble)

    def _listen(self, live: LiveSession) -> None:
        self._scrub = live.recorder.without_secrets
        hooks = live.session.coordinator.hooks
        self._report.listen(hooks, self._show_tool)
        hooks.register("hook:failed", _show_failed_hook, name="amplifier run")
        is_streamed = not self._as_json and self._records is None
        if is_streamed and self._options.output_schema is None and can_stream():
            self._stream.listen(hooks)
        for each in live.session.status.modules:
            if each.state == "failed":
                cause = one_line(str(each.error))
                # Not cut to the screen: an error of ours ends with the next step.
                notice(fitted(f"{each.module_id} is missing: {cause}", 1_000), level="warning")

    def _check_named_tools(self, tools: dict[str, Any]) -> None:
        """Refuse the name of a tool that is not there, before a model is paid.

        Raises:
            SettingsError: `--deny` or `--allow` names no tool.
        """
        if not self._options.tools:
            return
        allowed = [each for each in self._options.allow if not opens_sandbox(each)]
        for action, names, why in (
            ("deny", self._options.deny, "A typing error would let another tool run."),
            ("allow", allowed, "The calls that it was meant for would be denied."),
        ):
            for each in names:
                if not fnmatch.filter(tools, each):
                    raise SettingsError(
                        f"There is no tool `{each}` to {action}.",
                        why=why,
                        fix="amplifier tool list",
                    )

    def _trouble_in(self, live: LiveSession) -> GuardError | None:
        """Return why the work may be incomplete: a guard that failed, or calls that were denied."""
        self._denied = listed(self._report.denied, self._scrub)
        if self._report.failed_guards:
            return guard_failure(self._report.failed_guards, self._scrub)
        if not self._denied or is_terminal():
            # At a terminal the user denied the calls and need not be informed.
            return None
        grants: Any = live.session.coordinator.get_capability("approval.grants")
        by, needs = self._report.deciders(grants)
        return denial_of(self._denied, by, needs, self._short_id(), self._given())

    def _given(self) -> list[str]:
        """Return the options that a session which is resumed does not remember."""
        options = self._options
        named = {
            "--provider": options.provider,
            "--model": options.model,
            "--budget": options.budget_usd,
            "--mode": options.mode,
        }
        given: list[str] = []
        for name, value in named.items():
            given += [] if value is None else [name, value]
        for name, values in (
            ("--module", options.modules),
            ("--allow", options.allow),
            ("--deny", options.deny),
        ):
            for each in values:
                given += [name, each]
        return given if options.tools else [*given, "--no-tools"]

    async def _execute(self, live: LiveSession, prompt: str) -> str | None:
        """Run the turn; the first Ctrl-C stops it and keeps its work, the second cancels it."""
        loop = asyncio.get_running_loop()
        turn = asyncio.ensure_future(live.execute(prompt))
        stopping: list[asyncio.Task[None]] = []

        def stop() -> None:
            if stopping:
                turn.cancel()
            else:
                stopping.append(loop.create_task(live.cancel(immediate=True)))

        # Replaces the handler of `asyncio.run`, which would cancel this task instead of the turn.
        try:
            with on_signals(stop, only_interrupt=True):
                return await turn
        except BaseException:
            # After a Ctrl-C, any error is a consequence of it; `CancelledError` of the second one
            # is a BaseException.
            if not stopping:
                raise
            self._report.stop_reason = "cancelled"
            return None
        finally:
            for each in stopping:
                with suppress(asyncio.CancelledError):
                    await each

    def _introduce(self, ready: PreparedSession) -> None:
        if self._quiet:
            return
        if ready.is_mock:
            notice("No model configured; using the mock model.", level="warning")
            notice("Set one up: amplifier init")
        else:
            name = ready.provider.removeprefix("provider-")
            notice(f"{name}: {ready.why_provider or 'chosen in the settings or the bundle.'}")
        for line in ready.notices:
            if line != ready.why_provider:
                notice(line, level=ready.level_of(line))

    def _show_tool(self, tool: dict[str, Any]) -> None:
        if self._quiet:
            return
        self._stream.end_line()
        if tool["success"]:
            mark = styled("✓", fg="green")
        else:
            mark = styled("✗", fg="red")
        given = json_text(tool["input"])
        line = fitted(f"{tool['name']} {given}", screen_width() - 14)
        if tool["seconds"] is None:
            time = ""
        else:
            time = styled(took(tool["seconds"]), dim=True)
        say(f"{mark} {line}  {time}", err=True)
        if tool["error"] is not None:
            why = fitted(self._scrub(message_of(tool["error"])), screen_width() - 4)
            say(f"  {styled(why, fg='red')}", err=True)

    def _tell(
        self,
        ready: PreparedSession,
        answer: str | None,
        cost: Decimal | None,
        trouble: GuardError | None,
    ) -> int:
        report = self._report
        reason = report.stop_reason or "completed"
        if self._as_json:
            facts: dict[str, Any] = {
                "answer": answer,
                "session_id": self._session_id,
                "stop_reason": reason,
                "usage": report.usage,
                "cost_usd": None if cost is None or self._unpriced else str(cost),
                "unpriced_calls": self._unpriced,
                "tools": report.tools,
                "denied": self._denied,
                "provider": ready.provider.removeprefix("provider-"),
                "model": report.model,
            }
            if self._options.output_schema is not None:
                facts["result"] = report.result
            say_json(facts)
        elif self._records is not None:
            self._records.finish(self._short_id())
        else:
            self._stream.finish(answer)
        if not self._quiet and not self._as_json:
            self._sum_up(reason, cost)
        if trouble is not None:
            show_error(trouble)
        if report.budget_cause is not None:
            notice(f"budget: {report.budget_cause}", level="warning")
            return BUDGET
        if trouble is not None:
            return trouble.exit_code
        return _EXIT_CODES.get(reason, GENERAL)

    def _sum_up(self, reason: str, cost: Decimal | None) -> None:
        """Print one line with the usage, the cost and the command that continues."""
        usage = self._report.usage
        read = usage.get("input_tokens", 0)
        written = usage.get("output_tokens", 0)
        facts = [f"{read:,} tokens in, {written:,} out"]
        told = cost_text(cost, self._unpriced)
        if told:
            facts.append(told)
        if reason != "completed":
            facts.insert(0, f"ended: {reason}")
        level = "info" if reason == "completed" else "warning"
        notice(f"{', '.join(facts)}; continue: amplifier continue {self._short_id()}", level=level)

    def _short_id(self) -> str:
        return short_id(self._session_id or "")


async def _show_failed_hook(_: str, data: dict[str, Any]) -> None:
    """Show that a hook failed; a guard's failure is reported at the end, with its effect."""
    if not is_guard_failure(data):
        line = f"{data.get('handler')} failed on {data.get('event')}: {data.get('error')}"
        notice(fitted(line, 300), level="warning")
