"""The tool `bash`: run one shell command in a sandbox, with limits, and report its outcome."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.correlation import current_tool_call_id
from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit import notices
from amplifier_kit.questions import Preview
from amplifier_kit.session_folder import commands_home
from amplifier_kit.tools import tool_failure
from amplifier_kit.widenings import CallScope, Widening
from amplifier_module_tool_bash.boundary_hints import boundary_hint
from amplifier_module_tool_bash.command_scope import command_scope
from amplifier_module_tool_bash.config import UNPROTECTED, BashConfig
from amplifier_module_tool_bash.jobs import Jobs
from amplifier_module_tool_bash.missing_programs import hint_for
from amplifier_module_tool_bash.needs import GIT, NEEDS_SCHEMA, Boundary, Needs, Opened
from amplifier_module_tool_bash.reading import is_reading
from amplifier_module_tool_bash.session_parts import SessionParts
from amplifier_sandbox.network.package_settings import package_settings
from amplifier_sandbox.network.session_network import NetworkAccess
from amplifier_sandbox.own.git_identity import git_identity
from amplifier_sandbox.own.git_settings import git_environment
from amplifier_sandbox.processes.disk_use import DiskLimits
from amplifier_sandbox.processes.limits import Limits, SandboxError
from amplifier_sandbox.processes.live_output import OUTPUT, Capture, OutputEvents
from amplifier_sandbox.processes.private_home import prepared_home
from amplifier_sandbox.processes.program import Outcome, run
from amplifier_sandbox.processes.sandbox import (
    LaunchSpec,
    Sandbox,
    clean_environment,
    users_environment,
)
from amplifier_sandbox.processes.session_bounds import Admission, SessionBounds
from amplifier_sandbox.processes.toolchains import NO_TOOLCHAINS, Toolchains, find_toolchains
from amplifier_sandbox.processes.workspace import checked_workspace, existing_paths

SOURCE = "tool-bash"
DEGRADED = "sandbox:degraded"
STOPPED = "sandbox:stopped"

_BASH = ("/bin/bash", "--noprofile", "--norc", "-c")
_STATEMENT = (
    "UNPROTECTED: this command ran without a sandbox, "
    f"because the configuration says `sandbox: {UNPROTECTED}`."
)
# Linux limits one argument to 128 KiB (MAX_ARG_STRLEN).
_LONGEST_COMMAND_BYTES = 100_000
# The exit code of a shell whose program was ended by SIGXFSZ: 25 on Linux and on macOS.
_FILE_TOO_LARGE = 128 + 25
# Time for the tool to end a command and report it, before the loop cancels the tool.
_MARGIN_SECONDS = 5.0


class BashInput(Needs):
    """What the model fills in."""

    command: str = Field(min_length=1, max_length=_LONGEST_COMMAND_BYTES)
    timeout_seconds: float | None = Field(default=None, gt=0)


class _Surroundings(NamedTuple):
    """What a command finds besides its workspace."""

    home: Path
    toolchains: Toolchains
    opened: Opened
    readable: list[str | Path]
    env: dict[str, str]


class _Ready(NamedTuple):
    """A command that can be started now."""

    launch: LaunchSpec
    admission: Admission
    # Where it was not allowed to connect to, and why; filled while it runs.
    refused: Mapping[str, str]


class BashTool:
    """Runs shell commands in the workspace."""

    name = "bash"
    effect: Effect = "unsafe"
    output_trusted = False

    def __init__(
        self,
        settings: BashConfig,
        sandbox: Sandbox,
        coordinator: ModuleCoordinator,
        parts: SessionParts | None = None,
    ) -> None:
        """`parts` are shared by the commands of a session; without them, the tool has its own."""
        self._settings = settings
        self._sandbox = sandbox
        self._parts = parts or parts_of(settings, sandbox)
        self._boundary = Boundary(self.workspace, settings.protected_paths, self._parts.given)
        self._coordinator = coordinator
        self._folder = settings.working_dir or str(Path.cwd())
        self._limits = limits_of(settings)
        # Without a sandbox nothing keeps a command from the network.
        self.network = settings.network or settings.sandbox == UNPROTECTED
        # Whether a command can change nothing outside, except by what it asks for.
        self._has_sandbox = sandbox.level != "none"
        self.is_bounded = self._has_sandbox and not settings.network
        # Without a network, all it can do is to change files of the workspace.
        self.edits_files = self.is_bounded
        self.deadline_seconds: float | None = settings.max_timeout_seconds + _MARGIN_SECONDS
        self.description = _describe(settings, sandbox)
        self.input_schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The line, as for `bash -c`."},
                "timeout_seconds": {
                    "type": "number",
                    "description": f"Stop the command after this time; at most "
                    f"{settings.max_timeout_seconds:g}, by default {settings.timeout_seconds:g}.",
                },
                **NEEDS_SCHEMA,
            },
            "required": ["command"],
            "additionalProperties": False,
        }

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Run the command; failures are returned as results."""
        try:
            call = BashInput.model_validate(input)
        except ValidationError as error:
            return tool_failure(_readable(error))
        longest = self._settings.max_timeout_seconds
        seconds = call.timeout_seconds or min(self._settings.timeout_seconds, longest)
        if seconds > longest:
            return tool_failure(f"timeout_seconds: may be at most {longest:g}.")
        await self._tell_degradation()
        try:
            around = await asyncio.to_thread(self._surroundings, call)
            if call.background:
                return await self._start_job(call, around)
            # Waiting for other commands counts towards the deadline that the loop enforces.
            async with self._ready(call, around) as ready:
                seconds = min(seconds, longest - ready.admission.waited_seconds)
                return await self._run(call.command, ready, seconds, around)
        # ValueError: `subprocess` refuses, for example, a NUL in the command.
        except (SandboxError, OSError, ValueError) as error:
            return tool_failure(f"The command was not run: {error}.")

    async def widenings(self, tool_input: Any) -> list[Widening]:
        """Return what a call needs beyond the sandbox; guards ask about each."""
        try:
            call = BashInput.model_validate(tool_input)
            return await self._boundary.widenings(call)
        except (ValidationError, SandboxError, OSError, ValueError):
            # `execute` refuses the call, because nothing was returned that it could open.
            return []

    async def preview_call(self, tool_input: Any) -> Preview | None:
        """Return the command as it would run, which the user may change."""
        try:
            call = BashInput.model_validate(tool_input)
        except ValidationError:
            return None
        title = "this command"
        if call.outside_sandbox or not self._has_sandbox:
            title += " outside of the sandbox"
        return Preview(title, ("command",), text=call.command, editable="command")

    def only_reads(self, tool_input: Any) -> bool:
        """Return whether a command is one that only looks, and asks for nothing."""
        try:
            call = BashInput.model_validate(tool_input)
        except ValidationError:
            return False
        return self.is_bounded and not call.is_more and is_reading(call.command)

    def call_scopes(self, tool_input: Any) -> list[CallScope]:
        """Return the commands that one answer can be about: its program, with any arguments."""
        try:
            call = BashInput.model_validate(tool_input)
        except ValidationError:
            return []
        # Without a sandbox, arguments that nobody saw could do anything.
        scope = command_scope(call.command) if self.is_bounded else None
        if scope is None or call.outside_sandbox:
            return []
        return [CallScope(f"command {scope}", f"`{scope}` with any arguments")]

    def reaches_outside(self, tool_input: Any) -> bool:
        """Return whether a call brings text from outside into the session."""
        if self.network:
            return True
        try:
            return BashInput.model_validate(tool_input).reaches_outside
        except ValidationError:
            # It was not run, or nothing is known about it.
            return not isinstance(tool_input, dict)

    def preflight(self, tool_input: dict[str, Any]) -> str | None:
        """Return why a call would be refused, so that nobody is asked about it."""
        try:
            self._boundary.check(BashInput.model_validate(tool_input))
        except ValidationError as error:
            return _readable(error)
        except (SandboxError, OSError, ValueError) as error:
            return f"The command was not run: {error}."
        return None

    @asynccontextmanager
    async def _ready(self, call: BashInput, around: _Surroundings) -> AsyncGenerator[_Ready]:
        wait = self._settings.max_timeout_seconds / 2
        admitted = self._parts.bounds.admit(self._limits, self.workspace(), wait, around.home)
        async with admitted as admission:
            if call.outside_sandbox or self.network:
                with self._launch(call, admission, around, None) as launch:
                    yield _Ready(launch, admission, {})
                return
            async with self._parts.network(around.opened.destinations) as access:
                with self._launch(call, admission, around, access) as launch:
                    yield _Ready(
                        launch, admission, {} if access is None else access.allowed.refused
                    )

    async def _start_job(self, call: BashInput, around: _Surroundings) -> ToolResult:
        if self._parts.jobs.is_full:
            return tool_failure("Too many commands run in the background; stop one (`bash_jobs`).")
        captures = self._captures()

        async def run_job() -> str:
            async with self._ready(call, around) as ready:
                outcome = await run(
                    ready.launch,
                    lambda stream, data: captures[stream].feed(data),
                    seconds=None,
                    most_bytes=self._settings.max_output_bytes,
                    watch=ready.admission.watch,
                )
                if outcome.ending != "exited":
                    return f"{outcome.ending} {outcome.reason}".rstrip()
                return f"ended with exit code {outcome.exit_code}"

        job = await self._parts.jobs.start(
            call.command, captures, run_job, reaches_outside=call.reaches_outside
        )
        if not job.ending:
            return ToolResult(success=True, output=job.report())
        trouble = f"The command did not stay: it {job.ending}."
        return ToolResult(success=False, output=job.report(), error={"message": trouble})

    def _surroundings(self, call: BashInput) -> _Surroundings:
        """Return what a command finds besides its workspace; looks at many folders once."""
        workspace = checked_workspace(self.workspace())
        opened = self._boundary.opened(call)
        if not self._settings.toolchains:
            toolchains = NO_TOOLCHAINS
        else:
            toolchains = find_toolchains(
                [workspace, *existing_paths(self._settings.writable_paths), *opened.writable],
                existing_paths(self._settings.read_only_paths),
            )
        writes_git = GIT in call.write
        packages = package_settings()
        env = {
            **packages.variables,
            **clean_environment(self._settings.pass_env, toolchains),
            **git_environment(hooks=writes_git),
            **(git_identity(workspace) if writes_git else {}),
        }
        readable = [*self._boundary.readable(), *packages.certificates.values()]
        home = prepared_home(commands_home(workspace))
        return _Surroundings(home, toolchains, opened, readable, env)

    def _launch(
        self,
        call: BashInput,
        admission: Admission,
        around: _Surroundings,
        access: NetworkAccess | None,
    ) -> LaunchSpec:
        settings = self._settings
        argv = [*_BASH, call.command]
        if call.outside_sandbox:
            outside = replace(admission.sandbox, level="none", is_waived=True)
            launch = outside.command(
                argv, workspace=self.workspace(), protected=(), limits=admission.limits
            )
            launch.env = {**users_environment(settings.pass_env), "PWD": launch.cwd}
            return launch
        return admission.sandbox.command(
            argv,
            workspace=self.workspace(),
            env=around.env,
            toolchains=around.toolchains,
            home=around.home,
            network=settings.network or access or False,
            protected=around.opened.protected,
            read_only=[*around.readable, *settings.read_only_paths],
            writable=[*settings.writable_paths, *around.opened.writable],
            limits=admission.limits,
        )

    def workspace(self) -> str:
        """Return the folder that commands run in."""
        known: Any = self._coordinator.get_capability("session.working_dir")
        if isinstance(known, str) and known:
            return known
        return self._folder

    def _captures(self) -> dict[str, Capture]:
        return {name: Capture(self._settings.output_bytes) for name in ("stdout", "stderr")}

    async def _run(
        self, command: str, ready: _Ready, seconds: float, around: _Surroundings
    ) -> ToolResult:
        captures = self._captures()
        hooks = self._coordinator.hooks
        live = None
        if hooks.has_handlers(OUTPUT):
            facts = {"tool_name": self.name, "tool_call_id": current_tool_call_id()}
            live = OutputEvents(hooks.emit, facts)

        def listen(stream: str, data: bytes) -> None:
            captures[stream].feed(data)
            if live is not None:
                live.add(stream, data)

        limit = self._settings.max_output_bytes
        admission = ready.admission
        try:
            outcome = await run(
                ready.launch, listen, seconds=seconds, most_bytes=limit, watch=admission.watch
            )
        finally:
            if live is not None:
                await live.close()
        trouble = self._trouble(outcome, admission)
        if trouble is not None and outcome.ending == "exited" and not self._sandbox.is_waived:
            said = "\n".join(captures[name].text() for name in ("stdout", "stderr"))
            protected = around.opened.protected
            denies = self._sandbox.level == "seatbelt"
            hint = boundary_hint(
                ready.refused, said, command, protected, denies=denies
            ) or hint_for(outcome.exit_code, said, Path(self.workspace()), around.toolchains)
            if hint is not None:
                trouble = f"{trouble}\n{hint}"
        if outcome.ending == "stopped":
            await self._tell_stopped(command, outcome.reason)
        return self._report(outcome, captures, trouble)

    def _report(
        self, outcome: Outcome, captures: dict[str, Capture], trouble: str | None
    ) -> ToolResult:
        has_exited = outcome.ending == "exited"
        output: dict[str, Any] = {"warning": _STATEMENT} if self._sandbox.is_waived else {}
        output |= {
            "exit_code": outcome.exit_code if has_exited else None,
            **{name: capture.text() for name, capture in captures.items()},
            **{f"{name}_bytes": capture.total for name, capture in captures.items()},
            "is_truncated": any(capture.left_out for capture in captures.values()),
            "duration_seconds": round(outcome.seconds, 3),
        }
        if trouble is None:
            return ToolResult(success=True, output=output)
        return ToolResult(
            success=False, output={**output, "trouble": trouble}, error={"message": trouble}
        )

    def _trouble(self, outcome: Outcome, admission: Admission) -> str | None:
        """Return what went wrong and what to do about it; None if nothing did."""
        settings = self._settings
        if outcome.ending == "stopped":
            return (
                f"The command was stopped, with all it had started: {outcome.reason}.\n"
                "Every command that ran at this time was stopped with it.\n"
                "Use less, or run fewer commands at a time; `rm` works, also on a full disk."
            )
        if outcome.ending == "timed out":
            return (
                f"The command was stopped after {outcome.seconds:.1f} s, with all it had started. "
                f"Give it less to do, or a longer timeout_seconds (at most "
                f"{settings.max_timeout_seconds:g})."
            )
        if outcome.ending == "wrote too much":
            return (
                f"The command was stopped because it wrote more than {settings.max_output_bytes} "
                "bytes. Write to a file in the workspace, or select what you need."
            )
        if outcome.memory_kills:
            return (
                f"The command ran out of memory: {outcome.memory_kills} of its processes were "
                f"killed at {settings.memory_bytes} bytes for all commands of the session."
            )
        if outcome.exit_code == 0:
            return None
        if outcome.exit_code == _FILE_TOO_LARGE:
            if admission.is_disk_used_up:
                limit = 0
            else:
                limit = admission.limits.file_bytes
            return (
                f"The command was ended because it wrote more than {limit:,} bytes to a file.\n"
                "The limit is `max_disk_bytes`, or 0 while the commands of this session have "
                "used up their disk space.\nDelete what is not needed with `rm`, then repeat it."
            )
        return f"The command ended with exit code {outcome.exit_code}{_signal(outcome.exit_code)}."

    async def _tell_stopped(self, command: str, reason: str) -> None:
        notices.show(self._coordinator, f"A command was stopped: {reason}.", source=SOURCE)
        facts = {"tool_name": self.name, "tool_call_id": current_tool_call_id(), "reason": reason}
        await self._coordinator.hooks.emit(
            STOPPED, {**facts, "counting": self._parts.bounds.counting}
        )

    async def _tell_degradation(self) -> None:
        sandbox = self._sandbox
        if sandbox.protects_paths:
            return
        if sandbox.is_waived:
            line = f"A command runs without any protection: `sandbox: {UNPROTECTED}` is set."
            notices.show(self._coordinator, line, source=SOURCE)
        facts = {"tool_name": self.name, "level": sandbox.level, "reasons": list(sandbox.reasons)}
        await self._coordinator.hooks.emit(DEGRADED, facts)


def limits_of(settings: BashConfig) -> Limits:
    """Return the limits of one command, which all commands of a session together share."""
    return Limits(
        settings.memory_bytes,
        settings.processes,
        settings.cpu_seconds,
        settings.temporary_bytes,
    )


def parts_of(settings: BashConfig, sandbox: Sandbox) -> SessionParts:
    """Return what all commands of a session share."""
    bounds = SessionBounds(
        sandbox,
        limits_of(settings),
        DiskLimits(settings.max_disk_bytes, settings.keep_free_bytes),
        settings.parallel_commands,
        settings.writable_paths,
    )
    # One command at least can always run besides those that stay.
    jobs = Jobs(bounds.parallel_commands - 1)
    return SessionParts(bounds, jobs, sandbox.level)


def _describe(settings: BashConfig, sandbox: Sandbox) -> str:
    if settings.sandbox == UNPROTECTED:
        place = "It runs without a sandbox."
    else:
        place = _describe_sandbox(settings, has_namespaces=sandbox.level != "seatbelt")
    return (
        f"Run a bash command in the workspace. {place} Every call starts in the workspace with a "
        "fresh shell and ends with all it started, unless it is given `background`. Standard input "
        "is empty. Long output is shortened in the middle."
    )


def _describe_sandbox(settings: BashConfig, *, has_namespaces: bool) -> str:
    protected = ", ".join(settings.protected_paths)
    written = f", except {protected}" if protected else ""
    if settings.network:
        network = "It has network access."
    elif has_namespaces:
        network = "It has no network but a localhost that the calls of the session share."
    else:
        network = "It has no network, and no localhost."
    temporary = "/tmp" if has_namespaces else "TMPDIR"
    return (
        f"It runs in a sandbox: only the workspace can be written to{written}. {network} HOME is "
        f"private to the project and kept between calls, {temporary} is empty in each call. A "
        "command that needs more is given `network`, `write` or `background`, and a `reason`: the "
        "user decides."
    )


def _readable(error: ValidationError) -> str:
    complaints = (
        f"{'.'.join(map(str, each['loc'])) or 'input'}: {each['msg']}" for each in error.errors()
    )
    return f"{'; '.join(complaints)}. Give `command`, a text, and if needed `timeout_seconds`."


def _signal(exit_code: int) -> str:
    """Return the name of the signal that a shell reports as 128 plus its number."""
    with suppress(ValueError):
        if exit_code > 128:
            return f" (killed by {signal.Signals(exit_code - 128).name})"
        return ""
    return ""
