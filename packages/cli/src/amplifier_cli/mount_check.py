"""Mounting all modules of a bundle in a process of its own, to see which of them fail and why."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_sandbox.visible_text import json_text

if TYPE_CHECKING:
    from amplifier_foundation.preparing import Ready

__all__ = ["MountReport", "mount_all"]

_PARTS = ("orchestrator", "context")
_NO_RESULT = "The process that mounted it ended before it was done."


class MountReport(NamedTuple):
    """How many modules mounted, and why each of the others did not."""

    mounted: int
    failed: dict[str, str]


def mount_all(bundle: str, seconds: float) -> MountReport:
    """Import and mount every module of a bundle as a run would, in a process that is then ended.

    A module that takes longer than all of `seconds` is reported as failed, like one that ends the
    process.
    """
    with tempfile.TemporaryDirectory(prefix="amplifier-mount-") as folder:
        report = Path(folder) / "report"
        report.touch()
        # Without the current folder on the import path, as the installed command.
        command = [sys.executable, "-P", "-m", "amplifier_cli.mount_check", bundle, folder]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        why = _NO_RESULT
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            why = f"It did not mount within {seconds:g} seconds."
        finally:
            if process.poll() is None:
                # What its modules have started, too.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return _read(report, why)


def _read(report: Path, why: str) -> MountReport:
    trying = "session"
    mounted = 0
    failed: dict[str, str] = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        fact: dict[str, Any] = json.loads(line)
        if fact.get("done"):
            return MountReport(mounted, failed)
        if "trying" in fact:
            trying = str(fact["trying"])
        elif fact["error"] is None:
            mounted += 1
        else:
            failed[str(fact["module"])] = str(fact["error"])
    return MountReport(mounted, {**failed, trying: why})


class _Watched:
    """A resolver that notes for which module it is asked: the one that is about to be mounted."""

    def __init__(self, resolver: Any, report: Path) -> None:
        self._resolver = resolver
        self._report = report

    async def async_resolve(
        self, module_id: str, source_hint: Any = None, profile_hint: Any = None
    ) -> Any:
        _note(self._report, {"trying": module_id})
        return await self._resolver.async_resolve(module_id, source_hint, profile_hint)

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        _note(self._report, {"trying": module_id})
        return self._resolver.resolve(module_id, source_hint, profile_hint)


def _note(report: Path, fact: dict[str, Any]) -> None:
    with report.open("a", encoding="utf-8") as file:
        file.write(json_text(fact) + "\n")


async def _mount(bundle: str, folder: Path) -> None:
    """Mount a bundle in this process, and write to the report what became of it."""
    from amplifier_core.errors import AmplifierError  # noqa: PLC0415 - not for who only reads
    from amplifier_core.session import AmplifierSession  # noqa: PLC0415 - as above
    from amplifier_foundation.bundles import default_bundle  # noqa: PLC0415 - as above
    from amplifier_foundation.preparing import (  # noqa: PLC0415 - as above
        Wishes,
        current_settings,
        get_ready,
    )

    report = folder / "report"
    ready = await get_ready(Wishes(bundle=bundle))
    await ready.require_pins()
    plan = _tolerant(ready)
    # Without a loop or a memory no session starts. The other modules are then tried with ours.
    ours = default_bundle(current_settings(ready.project)).session
    for _ in range(len(_PARTS) + 1):
        session = AmplifierSession(plan)
        coordinator = session.coordinator
        coordinator.register_capability("session.working_dir", str(Path.cwd()))
        coordinator.register_capability("session.folder", str(folder))
        await coordinator.mount("module-source-resolver", _Watched(ready.resolver, report))
        try:
            await session.initialize()
        except AmplifierError as error:
            part = _failed_part(coordinator)
            module = plan["session"][part]["module"]
            plan["session"][part] = ours[part]
            _note(report, {"module": module, "error": str(error)})
            await session.cleanup()
            continue
        for each in session.status.modules:
            if each.state == "failed":
                failure = each.error or "It failed."
            else:
                failure = None
            _note(report, {"module": each.module_id, "error": failure})
        # What a module does when it is ended is not part of the check.
        _note(report, {"done": True})
        await session.cleanup()
        return
    _note(report, {"done": True})


def _failed_part(coordinator: Any) -> str:
    """Return which part of a session keeps it from starting."""
    if coordinator.get("orchestrator") is not None:
        return "context"
    return "orchestrator"


def _tolerant(ready: Ready) -> dict[str, Any]:
    """Return a plan in which no module is required, so that all are tried."""
    plan: dict[str, Any] = {**ready.plan, "session": dict(ready.plan["session"])}
    for section in ("providers", "tools", "hooks"):
        entries: list[dict[str, Any]] = plan.get(section) or []
        plan[section] = [{**each, "required": False} for each in entries]
    return plan


if __name__ == "__main__":
    asyncio.run(_mount(sys.argv[1], Path(sys.argv[2])))
