"""A session without a log, to inspect what is mounted or to call one module."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from amplifier_cli.failures import CommandError
from amplifier_cli.kept_log import keeping_log
from amplifier_cli.render.plain import one_line
from amplifier_cli.terminal import notice
from amplifier_cli.terminal_prompts import Notices
from amplifier_core.interfaces import input_schema_of
from amplifier_core.llm_errors import ContextLengthError, LLMError, LLMTimeoutError
from amplifier_core.message_models import ToolSpec
from amplifier_core.session import AmplifierSession
from amplifier_foundation.live import refuse_without_provider
from amplifier_foundation.prepare import PreparedSession, SessionOptions, prepare_session
from amplifier_foundation.session_options import PARTS
from amplifier_kit.explained_error import ExplainedError
from amplifier_kit.tokens import CHARS_PER_TOKEN, window_of

__all__ = [
    "MountedTools",
    "mounted_provider",
    "mounted_tools",
    "mounting_failure",
    "provider_trouble",
]

# A local server may have to load the model first.
_ANSWER_SECONDS = 15.0


class MountedTools(NamedTuple):
    """The mounted tools by name, and the unavailable ones with the reason."""

    tools: dict[str, Any]
    missing: dict[str, str]


@asynccontextmanager
async def mounted_provider(name: str | None, model: str | None = None) -> AsyncGenerator[Any]:
    """Mount one provider, by default the one that a session would use, and yield it.

    Raises:
        CommandError: it did not mount.
    """
    ready = await prepare_session(SessionOptions(provider=name, model=model, tools=False))
    _tell(ready)
    async with _bare_session(ready, "providers") as coordinator:
        providers: dict[str, Any] = coordinator.get("providers") or {}
        if not providers:
            raise CommandError(
                f"{ready.provider} did not come up.",
                why="The lines above say what it lacks.",
                fix="amplifier init",
            )
        yield _first_provider(coordinator)


@asynccontextmanager
async def mounted_tools(options: SessionOptions) -> AsyncGenerator[MountedTools]:
    """Mount the tools of a session and yield them."""
    ready = await prepare_session(options)
    _tell(ready)
    async with _bare_session(ready, "tools") as coordinator:
        told: list[Any] = await coordinator.collect_contributions("tools.unavailable")
        missing = {str(each["tool"]): str(each["reason"]) for each in told}
        yield MountedTools(coordinator.get("tools") or {}, missing)


async def provider_trouble(ready: PreparedSession) -> Exception | None:
    """Mount providers and tools, ask the first provider for its models; return what goes wrong."""
    plan: dict[str, Any] = {"session": _parts(ready), "providers": ready.plan["providers"]}
    session = AmplifierSession({**plan, "tools": ready.plan.get("tools") or []})
    session.coordinator.register_capability("session.working_dir", str(ready.project))
    await session.coordinator.mount("module-source-resolver", ready.resolver)
    with keeping_log():
        async with session:
            try:
                refuse_without_provider(session, ready.plan)
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await _first_provider(session.coordinator).list_models()
                return _window_trouble(session.coordinator, ready)
            except TimeoutError:
                return LLMTimeoutError(f"no answer within {_ANSWER_SECONDS:g} s")
            except (LLMError, ExplainedError) as error:
                return error


def _window_trouble(coordinator: Any, ready: PreparedSession) -> ContextLengthError | None:
    """Return an error if instructions and tools leave no space for a prompt in the window."""
    window = window_of(_first_provider(coordinator))
    if window is None:
        return None
    tools: dict[str, Any] = coordinator.get("tools") or {}
    specs = [
        ToolSpec(name=name, description=each.description, parameters=input_schema_of(each))
        for name, each in tools.items()
    ]
    described = sum(len(each.model_dump_json(exclude_none=True)) for each in specs)
    instructed = sum(len(each.text) for each in ready.instructions)
    needed = (described + instructed) // CHARS_PER_TOKEN
    if window.budget(described // CHARS_PER_TOKEN) > instructed // CHARS_PER_TOKEN:
        return None
    return ContextLengthError(
        f"its window has {window.size:,} tokens, of which {window.reserve:,} are for the answer; "
        f"the instructions and {len(specs)} tools take {needed:,}"
    )


def _first_provider(coordinator: Any) -> Any:
    """Return the provider that a loop uses by default."""
    providers: dict[str, Any] = coordinator.get("providers")
    return min(providers.values(), key=lambda each: getattr(each, "priority", 100))


async def mounting_failure(ready: PreparedSession, hook: dict[str, Any]) -> str:
    """Mount one hook of a plan and return why it failed, in one line, or an empty text."""
    # Not required: a required module that fails ends `initialize` before its status can be read.
    plan = {"session": _parts(ready), "hooks": [{**hook, "required": False}]}
    session = AmplifierSession(plan)
    session.coordinator.register_capability("session.working_dir", str(ready.project))
    await session.coordinator.mount("module-source-resolver", ready.resolver)
    with keeping_log():
        async with session:
            failed = [each for each in session.status.modules if each.state == "failed"]
    if failed:
        return one_line(str(failed[0].error))
    return ""


def _parts(ready: PreparedSession) -> dict[str, Any]:
    """Return the loop and the context of a plan, because no session starts without them."""
    # The plan's own, not ours by name: an installation need not have our default modules.
    return {part: ready.plan["session"][part] for part in PARTS.values()}


def _tell(ready: PreparedSession) -> None:
    for line in ready.notices:
        if line != ready.why_provider:
            notice(line, level=ready.level_of(line))


@asynccontextmanager
async def _bare_session(ready: PreparedSession, *sections: str) -> AsyncGenerator[Any]:
    """Mount only the named sections of a plan, and yield the coordinator."""
    plan: dict[str, Any] = {"session": _parts(ready)}
    plan |= {name: ready.plan.get(name) or [] for name in sections}
    session = AmplifierSession(plan, display_system=Notices())
    session.coordinator.register_capability("session.working_dir", str(ready.project))
    await session.coordinator.mount("module-source-resolver", ready.resolver)
    await ready.require_pins()
    async with session:
        yield session.coordinator
