"""The agent: a model, instructions, tools and types, compiled to a mount plan."""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from pydantic import TypeAdapter
from typing_extensions import TypeVar

from amplifier.budget import SHARED, Budget
from amplifier.content import Prompt
from amplifier.durable import Durable
from amplifier.errors import AgentError, how_to_install
from amplifier.events import Done
from amplifier.finish import in_own_task
from amplifier.functions import needs_approval, tool_name
from amplifier.guards import Guard
from amplifier.models import ScriptedModel, refuse
from amplifier.references import DEPS, reference_of
from amplifier.session import LoggedMessages, Questions, Session
from amplifier.stored import Store, session_folder
from amplifier_core.errors import SessionError
from amplifier_core.session import AmplifierSession
from amplifier_journal.backends import find_turn_backend
from amplifier_journal.errors import NoBackendError, SessionOpenError
from amplifier_kit.notices import absence_capability

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["Agent", "with_budget_of"]

DepsT = TypeVar("DepsT", default=None)
OutputT = TypeVar("OutputT", default=str)
_GROUP = "amplifier.modules"
_DATABASES = ("sqlite:///", "postgresql://")
# How a reference to a function begins that no other process can import.
_OF_THE_SCRIPT = '"__main__:'
logger: logging.Logger = logging.getLogger("amplifier")


class Agent(Generic[DepsT, OutputT]):
    """What conversations are made of; immutable, and shared by any number of sessions.

    `model` is `provider:model`, such as `anthropic:claude-sonnet-5-5`, the entry of a provider in a
    mount plan, or for tests a `ScriptedModel`. With `output` the answer is JSON that fits this
    type. `agents` are those that the model can give work to, by their names; each needs a
    `description`. `guards` decide about every tool call. `tool_modules` and `hooks` are further
    entries of the plan, such as the tools of MCP servers. `plan` is what all of it is compiled to.
    """

    def __init__(
        self,
        model: str | Mapping[str, Any] | ScriptedModel,
        *,
        instructions: str = "",
        tools: Sequence[Callable[..., Any]] = (),
        deps: type[DepsT] | None = None,
        output: type[OutputT] | None = None,
        agents: Mapping[str, Agent[Any, Any]] | None = None,
        guards: Sequence[Guard[Any]] = (),
        tool_modules: Sequence[Mapping[str, Any]] = (),
        hooks: Sequence[Mapping[str, Any]] = (),
        description: str = "",
    ) -> None:
        self.instructions = instructions
        self.description = description
        self._output = None if output is None else TypeAdapter[OutputT](output)
        self._deps = deps
        parts = _parts()
        self._plan: dict[str, Any] = {
            "session": self._session_part(parts),
            "providers": [_provider(model, parts)],
            "tools": [
                *_tools_part(parts, tools, has_agents=bool(agents)),
                *(dict(each) for each in tool_modules),
            ],
            "hooks": [*_guards_part(parts, tools, guards), *(dict(each) for each in hooks)],
        }
        if agents:
            self._plan["agents"] = {name: each.as_child() for name, each in agents.items()}

    @property
    def plan(self) -> dict[str, Any]:
        """A copy of the mount plan: data that can be printed, stored and run elsewhere."""
        return copy.deepcopy(self._plan)

    def testing(
        self,
        model: ScriptedModel | None = None,
        *,
        agents: Mapping[str, ScriptedModel] | None = None,
    ) -> Agent[DepsT, OutputT]:
        """Return this agent for a test: `model` answers, and real models are refused.

        `agents` are the models of its sub-agents by their names. A turn of an agent whose real
        model is not replaced raises an AgentError; a sub-agent reports it as the result of its
        call. The mock, which reaches no vendor, stays.

        Raises:
            AgentError: `agents` names a sub-agent that does not exist.
        """
        scripted = agents or {}
        unknown = scripted.keys() - self._plan.get("agents", {}).keys()
        if unknown:
            raise AgentError(
                f"There is no sub-agent `{min(unknown)}`.",
                why=f"Known: {', '.join(self._plan.get('agents', {})) or 'none'}.",
            )
        tested = copy.copy(self)
        tested._plan = _for_test(self.plan, model, scripted)
        return tested

    @overload
    def session(
        self: Agent[None, OutputT],
        session_id: str | None = None,
        *,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> AbstractAsyncContextManager[Session[OutputT]]: ...

    @overload
    def session(
        self,
        session_id: str | None = None,
        *,
        deps: DepsT,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> AbstractAsyncContextManager[Session[OutputT]]: ...

    def session(
        self,
        session_id: str | None = None,
        *,
        deps: Any = None,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> AbstractAsyncContextManager[Session[OutputT]]:
        """Open a conversation; it ends with the `async with` block.

        With a `store` it is recorded, and continued if the store has a session of this id. What it
        costs is taken from `budget`.
        """
        # Cleanups run and the log is closed whatever happens to the caller's task.
        return in_own_task(self._mounted(session_id, deps, store, budget))

    @overload
    async def run(
        self: Agent[None, OutputT],
        prompt: Prompt,
        *,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> Done[OutputT]: ...

    @overload
    async def run(
        self,
        prompt: Prompt,
        *,
        deps: DepsT,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> Done[OutputT]: ...

    async def run(
        self,
        prompt: Prompt,
        *,
        deps: Any = None,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> Done[OutputT]:
        """Run one turn in a session of its own."""
        return await self._run(prompt, deps, store, budget)

    @overload
    def run_sync(
        self: Agent[None, OutputT],
        prompt: Prompt,
        *,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> Done[OutputT]: ...

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        *,
        deps: DepsT,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> Done[OutputT]: ...

    def run_sync(
        self,
        prompt: Prompt,
        *,
        deps: Any = None,
        store: Store | None = None,
        budget: Budget | None = None,
    ) -> Done[OutputT]:
        """Do what `run` does, from code that is not asynchronous."""
        return asyncio.run(self._run(prompt, deps, store, budget))

    async def _run(
        self, prompt: Prompt, deps: Any, store: Store | None, budget: Budget | None
    ) -> Done[OutputT]:
        async with in_own_task(self._mounted(None, deps, store, budget)) as session:
            return await session.run(prompt)

    def save_bundle(self, file: Store) -> None:
        """Write the plan as a bundle, which the command runs: `amplifier run -b FILE`.

        The command has to find the functions, so their module has to be installed there.
        """
        path = Path(file)
        bundle = {"bundle": {"name": path.stem, "version": "1"}, **self.plan}
        # JSON, which every reader of YAML reads.
        path.write_text(json.dumps(bundle, indent=2) + "\n", encoding="utf-8")

    def durable(self, database: str, *, tenant: str = "default") -> Durable[DepsT, OutputT]:
        """Return this agent with its conversations in a database, whose turns workers run.

        `database` is `sqlite:///path` or `postgresql://...`; a tenant sees only its own sessions.

        Raises:
            AgentError: it is another address, or what runs the turns is not installed.
        """
        if not database.startswith(_DATABASES):
            # Without the user and the password.
            shown = database.rpartition("@")[2]
            raise AgentError(
                f"`{shown}` is not the address of a database.",
                why=f"It has to begin with {' or '.join(_DATABASES)}.",
            )
        try:
            backend = find_turn_backend(database, tenant)
        except NoBackendError:
            raise AgentError(
                "Sessions cannot be durable here.",
                why="The part that runs them is not installed.",
                fix=how_to_install("durable"),
            ) from None
        if _OF_THE_SCRIPT in json.dumps(self._plan):
            logger.warning(
                "The agent uses functions of the script that is run; only workers in this process "
                "find them. Define them in a module."
            )
        return Durable(self._plan_with, backend, self._output)

    def _plan_with(self, deps: DepsT | None) -> dict[str, Any]:
        """Return the plan of a session that runs elsewhere, with its dependencies as data."""
        plan = self.plan
        if deps is not None:
            if self._deps is None:
                raise AgentError(
                    "The dependencies cannot be stored.",
                    why="The agent does not name their type.",
                    fix="Agent(..., deps=TheirType)",
                )
            value = TypeAdapter[Any](self._deps).dump_python(deps, mode="json")
            stored = {"type": reference_of(self._deps), "value": value}
            _store_deps(plan, stored, _parts())
        return plan

    @asynccontextmanager
    async def _mounted(
        self, session_id: str | None, deps: Any, store: Store | None, budget: Budget | None
    ) -> AsyncGenerator[Session[OutputT]]:
        if deps is None and self._deps is not None:
            raise AgentError(
                "This agent needs its dependencies.",
                why=f"Its tools use a `{self._deps.__name__}`.",
                fix=f"deps={self._deps.__name__}(...)",
            )
        questions = Questions()
        plan = self.plan
        capabilities: dict[str, Any] = {DEPS: deps}
        if budget is not None:
            capabilities[SHARED] = budget
            entry = _parts()["budget"]
            plan["hooks"].append({**entry, "config": budget.config})
        if store is not None:
            folder = session_folder(store)
            opening = folder.open(
                plan,
                session_id=session_id,
                approval_system=questions,
                display_system=LoggedMessages(),
                capabilities=capabilities,
            )
            async with AsyncExitStack() as opened:
                try:
                    stored = await opened.enter_async_context(opening)
                except SessionOpenError as error:
                    # What the backend advises are commands.
                    fix = "Wait until it is closed, or open a fork: Sessions(store).fork(id)"
                    raise SessionOpenError(error.message, why=error.why, fix=fix) from None
                yield Session(stored.session, stored.execute, questions, self._output)
            return
        kernel = AmplifierSession(
            plan,
            session_id=session_id,
            approval_system=questions,
            display_system=LoggedMessages(),
        )
        for name, value in capabilities.items():
            kernel.coordinator.register_capability(name, value)
        async with _initialized(kernel):
            # The kernel passes a prompt to the loop as it is, and ours take blocks of content.
            yield Session(kernel, cast("Any", kernel.execute), questions, self._output)

    def _session_part(self, parts: dict[str, Any]) -> dict[str, Any]:
        session: dict[str, Any] = parts["session"]
        if self._output is not None:
            session["orchestrator"]["config"]["output_schema"] = self._output.json_schema()
        if self.instructions:
            session["context"]["config"]["instructions"] = self.instructions
        return session

    def as_child(self) -> dict[str, Any]:
        """Return it as an entry of `agents` in another plan."""
        plan = self.plan
        # What a child does not say it has from its parent.
        plan["session"]["orchestrator"]["config"].setdefault("output_schema", None)
        plan["session"]["context"]["config"].setdefault("instructions", "")
        return {**plan, "description": self.description}


def _tools_part(
    parts: dict[str, Any], tools: Sequence[Callable[..., Any]], *, has_agents: bool
) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    if tools:
        parts["functions"]["config"]["functions"] = [reference_of(each) for each in tools]
        entries.append(parts["functions"])
    if has_agents:
        entries.append(parts["agents"])
    return entries


def _guards_part(
    parts: dict[str, Any], tools: Sequence[Callable[..., Any]], guards: Sequence[Guard[Any]]
) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    asked = [tool_name(each) for each in tools if needs_approval(each)]
    if asked:
        rules = [{"tool": name, "action": "ask"} for name in asked]
        parts["approval"]["config"]["rules"] = rules
        entries.append(parts["approval"])
    if guards:
        parts["guards"]["config"]["functions"] = [reference_of(each) for each in guards]
        entries.append(parts["guards"])
    return entries


@asynccontextmanager
async def _initialized(kernel: AmplifierSession) -> AsyncGenerator[None]:
    """Open a session of the kernel.

    Raises:
        AgentError: a module that it cannot do without is not there, and why.
    """
    async with AsyncExitStack() as opening:
        opening.push_async_callback(kernel.cleanup)
        try:
            await kernel.initialize()
        except SessionError as error:
            raise AgentError(str(error), why=_failures(kernel)) from None
        if not kernel.coordinator.get("providers"):
            raise AgentError("No model can answer.", why=_failures(kernel))
        yield


def _failures(kernel: AmplifierSession) -> str:
    """Return why modules are missing, each with what it lacks."""
    found: list[str] = []
    for each in kernel.status.modules:
        lacks: Any = kernel.coordinator.get_capability(absence_capability(each.module_id))
        if lacks or each.error:
            found.append(f"{each.module_id}: {lacks or each.error}")
    return "; ".join(found)


def _store_deps(plan: dict[str, Any], stored: dict[str, Any], parts: dict[str, Any]) -> None:
    """Put dependencies into every entry of a plan that uses them, and into its agents."""
    users = {parts["functions"]["module"], parts["guards"]["module"]}
    for entry in (*plan["tools"], *plan["hooks"]):
        if entry["module"] in users:
            entry["config"]["deps"] = stored
    for each in plan.get("agents", {}).values():
        _store_deps(each, stored, parts)


def with_budget_of(recorded: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan with the budget of a recorded one: a session has it, and not its agent."""
    module_id = _parts()["budget"]["module"]
    if any(each.get("module") == module_id for each in plan["hooks"]):
        return plan
    budgets = [each for each in recorded.get("hooks") or () if each.get("module") == module_id]
    return {**plan, "hooks": [*plan["hooks"], *budgets]}


@functools.cache
def _read_parts() -> dict[str, Any]:
    text = files("amplifier").joinpath("plan.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def _parts() -> dict[str, Any]:
    """Return the parts of a plan, to be changed and put together."""
    return copy.deepcopy(_read_parts())


def _provider(
    model: str | Mapping[str, Any] | ScriptedModel, parts: dict[str, Any]
) -> dict[str, Any]:
    """Return the plan's entry for a model.

    Raises:
        AgentError: no installed provider has this name.
    """
    if isinstance(model, ScriptedModel):
        return {**parts[model.part], "config": model.config}
    if not isinstance(model, str):
        return dict(model)
    name, colon, model_id = model.partition(":")
    if not colon:
        raise AgentError(
            f"`{model}` does not name a provider.",
            why="A model is `provider:model`, such as `anthropic:claude-sonnet-5-5`.",
        )
    module_id = f"{parts['provider_prefix']}{name}"
    if not entry_points(group=_GROUP, name=module_id):
        prefix: str = parts["provider_prefix"]
        found = {each.name for each in entry_points(group=_GROUP)}
        # Only a ScriptedModel names the function that it calls.
        found.discard(parts["function_model"]["module"])
        known = sorted(each.removeprefix(prefix) for each in found if each.startswith(prefix))
        raise AgentError(
            f"The provider `{name}` is not installed.",
            why=f"Installed: {', '.join(known) or 'none'}.",
            fix=how_to_install(name) if name in parts["vendors"] else "",
        )
    config = {parts["model_key"]: model_id} if model_id else {}
    return {"module": module_id, "config": config}


def _for_test(
    plan: dict[str, Any], model: ScriptedModel | None, scripted: Mapping[str, ScriptedModel]
) -> dict[str, Any]:
    """Return a plan without real models, in its sub-agents too."""
    parts = _parts()
    harmless = {parts["function_model"]["module"], parts["list_model"]["module"]}
    tested = dict(plan)
    if model is not None:
        tested["providers"] = [_provider(model, parts)]
    elif not all(each.get("module") in harmless for each in plan["providers"]):
        refusal = {"function": reference_of(refuse)}
        tested["providers"] = [{**parts["function_model"], "config": refusal}]
    if "agents" in plan:
        tested["agents"] = {
            name: _for_test(each, scripted.get(name), scripted)
            for name, each in plan["agents"].items()
        }
    return tested
