"""A session that is not recorded, to look at what is mounted or to call one thing of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_cli.asking import Notices
from amplifier_cli.failures import CommandError
from amplifier_cli.kept_log import keeping_log
from amplifier_cli.render.plain import one_line
from amplifier_cli.terminal import notice
from amplifier_core.session import AmplifierSession
from amplifier_foundation.preparing import Ready, Wishes, get_ready
from amplifier_foundation.wishes import PARTS

__all__ = ["MountedTools", "mounted_provider", "mounted_tools", "mounting_failure"]


class MountedTools(NamedTuple):
    """The tools of a session by name, and those that a module could have brought, with the way."""

    tools: dict[str, Any]
    missing: dict[str, str]


@asynccontextmanager
async def mounted_provider(name: str | None, model: str | None = None) -> AsyncGenerator[Any]:
    """Mount one provider, by default the one that would answer, and give it.

    Raises:
        CommandError: it did not come up.
    """
    ready = await get_ready(Wishes(provider=name, model=model, tools=False))
    _tell(ready)
    async with _bare_session(ready, "providers") as coordinator:
        providers: dict[str, Any] = coordinator.get("providers") or {}
        if not providers:
            raise CommandError(
                f"{ready.provider} did not come up.",
                why="The lines above say what it lacks.",
                fix="amplifier init",
            )
        yield min(providers.values(), key=lambda each: getattr(each, "priority", 100))


@asynccontextmanager
async def mounted_tools(wishes: Wishes) -> AsyncGenerator[MountedTools]:
    """Mount the tools of a session and give them."""
    ready = await get_ready(wishes)
    _tell(ready)
    async with _bare_session(ready, "tools") as coordinator:
        told: list[Any] = await coordinator.collect_contributions("tools.unavailable")
        missing = {str(each["tool"]): str(each["reason"]) for each in told}
        yield MountedTools(coordinator.get("tools") or {}, missing)


async def mounting_failure(ready: Ready, hook: dict[str, Any]) -> str:
    """Mount one hook of a plan alone and return why it fails, in one line; nothing if it works."""
    plan = {"session": _parts(ready), "hooks": [{**hook, "required": False}]}
    session = AmplifierSession(plan)
    session.coordinator.register_capability("session.working_dir", str(Path.cwd()))
    await session.coordinator.mount("module-source-resolver", ready.resolver)
    with keeping_log():
        async with session:
            failed = [each for each in session.status.modules if each.state == "failed"]
    if failed:
        return one_line(str(failed[0].error))
    return ""


def _parts(ready: Ready) -> dict[str, Any]:
    """Return the loop and the memory of a plan: no session starts without, and these are there."""
    return {part: ready.plan["session"][part] for part in PARTS.values()}


def _tell(ready: Ready) -> None:
    for line in ready.notices:
        if line != ready.why_provider:
            notice(line, level=ready.level_of(line))


@asynccontextmanager
async def _bare_session(ready: Ready, *sections: str) -> AsyncGenerator[Any]:
    """Mount the named sections of a plan and nothing else, and give the coordinator."""
    plan: dict[str, Any] = {"session": _parts(ready)}
    plan |= {name: ready.plan.get(name) or [] for name in sections}
    session = AmplifierSession(plan, display_system=Notices())
    session.coordinator.register_capability("session.working_dir", str(Path.cwd()))
    await session.coordinator.mount("module-source-resolver", ready.resolver)
    await ready.require_pins()
    async with session:
        yield session.coordinator
