"""The tool `bash`: run one shell command in a sandbox, with limits, and report its outcome."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.correlation import current_tool_call_id
from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit import notices
from amplifier_kit.session_folder import commands_home
from amplifier_kit.tools import tool_failure
from amplifier_module_tool_bash.config import UNPROTECTED, BashConfig
from amplifier_module_tool_bash.missing_programs import hint_for
from amplifier_sandbox.own.git_settings import git_environment
from amplifier_sandbox.processes.disk_use import DiskLimits
from amplifier_sandbox.processes.limits import Limits, SandboxError
from amplifier_sandbox.processes.live_output import OUTPUT, Capture, OutputEvents
from amplifier_sandbox.processes.private_home import prepared_home
from amplifier_sandbox.processes.program import Outcome, run
from amplifier_sandbox.processes.sandbox import LaunchSpec, Sandbox, clean_environment
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
# The exit code of a shell whose program was ended by SIGXFSZ.
_FILE_TOO_LARGE = 128 + signal.SIGXFSZ
# Time for the tool to end a command and report it, before the loop cancels the tool.
_MARGIN_SECONDS = 5.0


class BashInput(BaseModel):
    """What the model fills in."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    command: str = Field(min_length=1, max_length=_LONGEST_COMMAND_BYTES)
    timeout_seconds: float | None = Field(default=None, gt=0)


class _Surroundings(NamedTuple):
    """What a command finds besides its workspace."""

    home: Path
    toolchains: Toolchains


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
        bounds: SessionBounds | None = None,
    ) -> None:
        """`bounds` are the limits of the session; without them, the tool has its own."""
        self._settings = settings
        self._sandbox = sandbox
        self._bounds = bounds or bounds_of(settings, sandbox)
        self._coordinator = coordinator
        self._folder = settings.working_dir or str(Path.cwd())
        self._limits = limits_of(settings)
        # Without a sandbox nothing keeps a command from the network.
        self.network = settings.network or settings.sandbox == UNPROTECTED
        self.deadline_seconds: float | None = settings.max_timeout_seconds + _MARGIN_SECONDS
        self.description = _describe(settings)
        self.input_schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The line, as for `bash -c`."},
                "timeout_seconds": {
                    "type": "number",
                    "description": f"Stop the command after this time; at most "
                    f"{settings.max_timeout_seconds:g}, by default {settings.timeout_seconds:g}.",
                },
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
            # Waiting for other commands counts towards the deadline that the loop enforces.
            surroundings = await asyncio.to_thread(self._surroundings)
            async with self._bounds.admit(
                self._limits, self.workspace(), longest / 2, surroundings.home
            ) as admission:
                seconds = min(seconds, longest - admission.waited_seconds)
                with self._launch(call.command, admission, surroundings) as launch:
                    return await self._run(call.command, launch, seconds, admission, surroundings)
        # ValueError: `subprocess` refuses, for example, a NUL in the command.
        except (SandboxError, OSError, ValueError) as error:
            return tool_failure(f"The command was not run: {error}.")

    def _surroundings(self) -> _Surroundings:
        """Return what a command finds besides its workspace; looks at many folders once."""
        workspace = checked_workspace(self.workspace())
        if not self._settings.toolchains:
            toolchains = NO_TOOLCHAINS
        else:
            toolchains = find_toolchains(
                [workspace, *existing_paths(self._settings.writable_paths)],
                existing_paths(self._settings.read_only_paths),
            )
        return _Surroundings(prepared_home(commands_home(workspace)), toolchains)

    def _launch(
        self, command: str, admission: Admission, surroundings: _Surroundings
    ) -> LaunchSpec:
        settings = self._settings
        environment = clean_environment(settings.pass_env, surroundings.toolchains)
        return admission.sandbox.command(
            [*_BASH, command],
            workspace=self.workspace(),
            env={**environment, **git_environment()},
            toolchains=surroundings.toolchains,
            home=surroundings.home,
            network=settings.network,
            protected=settings.protected_paths,
            read_only=settings.read_only_paths,
            writable=settings.writable_paths,
            limits=admission.limits,
        )

    def workspace(self) -> str:
        """Return the folder that commands run in."""
        known: Any = self._coordinator.get_capability("session.working_dir")
        if isinstance(known, str) and known:
            return known
        return self._folder

    async def _run(
        self,
        command: str,
        launch: LaunchSpec,
        seconds: float,
        admission: Admission,
        surroundings: _Surroundings,
    ) -> ToolResult:
        captures = {name: Capture(self._settings.output_bytes) for name in ("stdout", "stderr")}
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
        try:
            outcome = await run(
                launch, listen, seconds=seconds, most_bytes=limit, watch=admission.watch
            )
        finally:
            if live is not None:
                await live.close()
        trouble = self._trouble(outcome, admission)
        if trouble is not None and outcome.ending == "exited" and not self._sandbox.is_waived:
            said = "\n".join(captures[name].text() for name in ("stdout", "stderr"))
            hint = hint_for(
                outcome.exit_code, said, Path(self.workspace()), surroundings.toolchains
            )
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
        await self._coordinator.hooks.emit(STOPPED, {**facts, "counting": self._bounds.counting})

    async def _tell_degradation(self) -> None:
        sandbox = self._sandbox
        if sandbox.level == "bubblewrap":
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


def bounds_of(settings: BashConfig, sandbox: Sandbox) -> SessionBounds:
    """Return the limits that all commands of a session share."""
    return SessionBounds(
        sandbox,
        limits_of(settings),
        DiskLimits(settings.max_disk_bytes, settings.keep_free_bytes),
        settings.parallel_commands,
        settings.writable_paths,
    )


def _describe(settings: BashConfig) -> str:
    if settings.sandbox == UNPROTECTED:
        place = "It runs without a sandbox."
    else:
        network = "with" if settings.network else "without"
        place = (
            f"It runs in a sandbox {network} network access: only the workspace can be written to"
            + (
                f", except {', '.join(settings.protected_paths)}"
                if settings.protected_paths
                else ""
            )
            + ". HOME is private to the project and kept between calls, /tmp is empty in each call."
        )
    return (
        f"Run a bash command in the workspace. {place} Every call starts in the workspace with a "
        "fresh shell and ends with all it started: no background process outlives it. Standard "
        "input is empty. Long output is shortened in the middle."
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
