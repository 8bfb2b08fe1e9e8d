"""Functions as tools: `tool` says what a call does, and a plan names the function by reference."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import (
    Any,
    Generic,
    NamedTuple,
    ParamSpec,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from typing_extensions import TypeVar

from amplifier.errors import AgentError
from amplifier.functions.config import FunctionToolsConfig
from amplifier.references import DEPS, resolve, use_stored_deps
from amplifier.totals import problems_of
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.correlation import current_tool_call_id
from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.configuration import read_config

__all__ = ["Context", "FunctionTool", "mount", "needs_approval", "tool", "tool_name"]

__amplifier_module_type__ = "tool"

DepsT = TypeVar("DepsT", default=None)
P = ParamSpec("P")
R = TypeVar("R")
_MARK = "__amplifier_tool__"
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
# A line of an `Args:` section: the name, a type in parentheses that is ignored, and the text.
_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(\S.*)$")
_SECTION = re.compile(r"^\s*(\w[\w ]*):\s*$")


@dataclass(frozen=True, slots=True)
class Context(Generic[DepsT]):
    """What a function may know of the call it serves: its first parameter, if annotated so."""

    deps: DepsT
    session_id: str
    call_id: str | None


class _Options(NamedTuple):
    """What `tool` was given; the defaults are the worst case."""

    name: str | None = None
    effect: Effect = "unsafe"
    timeout: float | None = None
    approval: bool = False
    trusted_output: bool = False


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect = "unsafe",
    timeout: float | None = None,
    approval: bool = False,
    trusted_output: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect = "unsafe",
    timeout: float | None = None,
    approval: bool = False,
    trusted_output: bool = False,
) -> Any:
    """Say what a call of a function does; the function stays as it is.

    `effect` is `pure` if it changes nothing and `idempotent` if it may be repeated; a worker that
    takes over a turn repeats no other call. A call that takes longer than `timeout` seconds has
    failed. With `approval` whoever reads the stream is asked before each call. What a tool returns
    is data to the model and not an instruction; `trusted_output` is for tools that return nothing
    from outside.
    """
    if effect not in get_args(Effect):
        raise AgentError(
            f"`{effect}` is not an effect.", why=f"Known: {', '.join(get_args(Effect))}."
        )
    options = _Options(name, effect, timeout, approval, trusted_output)

    def mark(marked: Callable[..., Any]) -> Callable[..., Any]:
        setattr(marked, _MARK, options)
        return marked

    return mark if function is None else mark(function)


def _options_of(function: Callable[..., Any]) -> _Options:
    options: _Options = getattr(function, _MARK, _Options())
    return options


def tool_name(function: Callable[..., Any]) -> str:
    """Return the name under which the model knows a function."""
    return _options_of(function).name or function.__name__


def needs_approval(function: Callable[..., Any]) -> bool:
    """Whether somebody is asked before each call."""
    return _options_of(function).approval


class FunctionTool:
    """A typed function as a tool of the kernel."""

    def __init__(self, function: Callable[..., Any], coordinator: ModuleCoordinator) -> None:
        options = _options_of(function)
        self._function = function
        self._coordinator = coordinator
        self._signature = _signature_of(function)
        self.name: str = tool_name(function)
        self.description: str = self._signature.description
        self.input_schema: dict[str, Any] = self._signature.schema
        self.effect: Effect = options.effect
        self.output_trusted: bool = options.trusted_output
        self.deadline_seconds: float | None = options.timeout

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Call the function with checked arguments; a synchronous one runs in a thread."""
        signature = self._signature
        try:
            given = signature.model.model_validate(input)
        except ValidationError as error:
            return ToolResult(
                success=False,
                error={"message": f"The arguments are not valid. {problems_of(error)}"},
            )
        arguments = {name: getattr(given, name) for name in signature.model.model_fields}
        if signature.context is not None:
            arguments[signature.context] = self._context()
        if inspect.iscoroutinefunction(self._function):
            output: Any = await self._function(**arguments)
        else:
            output = await asyncio.to_thread(self._function, **arguments)
        if isinstance(output, ToolResult):
            return output
        if not isinstance(output, str):
            output = _ANYTHING.dump_python(output, mode="json")
        return ToolResult(output=output)

    def _context(self) -> Context[Any]:
        deps: Any = self._coordinator.get_capability(DEPS)
        return Context(deps, self._coordinator.session_id, current_tool_call_id())


class _Signature(NamedTuple):
    """What the annotations and the docstring of a function say; `context` is a parameter's name."""

    model: type[BaseModel]
    schema: dict[str, Any]
    description: str
    context: str | None


@functools.cache
def _signature_of(function: Callable[..., Any]) -> _Signature:
    hints = get_type_hints(function, include_extras=True)
    description, about = _documentation_of(function)
    fields: dict[str, Any] = {}
    context: str | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name, Any)
        if get_origin(hint) is Context or hint is Context:
            context = name
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise AgentError(
                f"`{function.__qualname__}` cannot be a tool.",
                why=f"The model cannot give `*{name}`: every parameter needs a name and a type.",
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hint, Field(default, description=about.get(name)))
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    model = create_model(function.__name__, __config__=config, **fields)
    schema = model.model_json_schema()
    schema.pop("title", None)
    return _Signature(model, schema, description or function.__name__, context)


def _documentation_of(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description of a function, and what its `Args:` section says of each parameter."""
    text: list[str] = []
    about: dict[str, str] = {}
    section = ""
    for line in (inspect.getdoc(function) or "").splitlines():
        if heading := _SECTION.match(line):
            section = heading[1]
        elif section in ("Args", "Arguments") and (found := _ARGUMENT.match(line)):
            about[found[1]] = found[2].strip()
        elif not section:
            text.append(line)
    return "\n".join(text).strip(), about


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount the functions that `functions` names, each as `module:name`."""
    settings = read_config(FunctionToolsConfig, config, "tool-functions")
    use_stored_deps(coordinator, settings.deps)
    for reference in settings.functions:
        await coordinator.mount("tools", FunctionTool(resolve(reference), coordinator))
