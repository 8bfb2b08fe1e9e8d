"""Signatures that the public contracts show, compared with those of the real methods."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import amplifier_core
from amplifier_core.module_sources import ModuleSource
from contract.seeds import BLOCKS

__all__ = ["Shown", "assert_offers", "assert_returns", "shown_function", "shown_signature"]

_NO_DEFAULT = inspect.Parameter.empty
# A call with annotated arguments, as in `await coordinator.collect_contributions(channel: str)`.
_CALL = re.compile(r"(?:\w+: (?P<returns>.+?) = )?(?P<await>await )?coordinator\.")


class Shown(NamedTuple):
    """A signature as a contract writes it; annotations and defaults are evaluated."""

    name: str
    is_async: bool
    is_property: bool
    parameters: dict[str, tuple[Any, Any]]
    returns: Any


def shown_signature(block: str) -> Shown:
    """Read the one signature that a block consists of."""
    text = BLOCKS[block].text.strip()
    call = _CALL.match(text)
    if call is not None:
        keyword = "async def" if call["await"] else "def"
        returns = f" -> {call['returns']}" if call["returns"] else ""
        text = f"{keyword} {text[call.end() :]}{returns}"
    (function,) = ast.parse(f"{text}: ...").body
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    return shown_function(function)


def shown_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Shown:
    """Read a function of a block that was parsed."""
    arguments = function.args
    positional = [each for each in arguments.args if each.arg != "self"]
    without = len(positional) - len(arguments.defaults)
    defaults = [_NO_DEFAULT] * without + [_value(each) for each in arguments.defaults]
    parameters = {
        argument.arg: (_annotation(argument.annotation), default)
        for argument, default in zip(positional, defaults, strict=True)
    }
    decorators = [ast.unparse(each) for each in function.decorator_list]
    return Shown(
        function.name,
        isinstance(function, ast.AsyncFunctionDef),
        decorators == ["property"],
        parameters,
        _annotation(function.returns),
    )


def _annotation(expression: ast.expr | None) -> Any:
    """Evaluate an annotation; without one, anything is allowed."""
    if expression is None:
        return Any
    annotation = _value(expression)
    return types.NoneType if annotation is None else annotation


def _value(expression: ast.expr) -> Any:
    return eval(ast.unparse(expression), _names())


def _names() -> dict[str, Any]:
    names = {name: getattr(amplifier_core, name) for name in amplifier_core.__all__}
    names.update(Any=Any, Awaitable=Awaitable, Callable=Callable, Path=Path)
    names.update(ModuleSource=ModuleSource)
    return names


def assert_offers(shown: Shown, real: Callable[..., Any]) -> None:
    """Check that `real`, a bound method, can be called in every way that the contract shows.

    It may take more: parameters with defaults after those shown, and wider types.
    """
    signature = inspect.signature(real)
    hints = typing.get_type_hints(real, localns=_names())
    offered = list(signature.parameters.values())
    for (name, (annotation, default)), parameter in zip(
        shown.parameters.items(), offered, strict=False
    ):
        assert parameter.name == name, f"{shown.name} takes {parameter.name} in place of {name}"
        assert parameter.kind is parameter.POSITIONAL_OR_KEYWORD, name
        assert parameter.default == default, f"{shown.name}: another default of {name}"
        assert _covers(hints.get(name, Any), annotation), f"{shown.name}: narrower type of {name}"
    missing = list(shown.parameters)[len(offered) :]
    assert not missing, f"{shown.name} does not take {missing}"
    for parameter in offered[len(shown.parameters) :]:
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        assert variable or parameter.default is not _NO_DEFAULT, f"{parameter.name} is demanded"
    assert_returns(shown, real)


def assert_returns(shown: Shown, real: Callable[..., Any]) -> None:
    """Check that the declared result of `real` is what the contract shows, or narrower."""
    returns = typing.get_type_hints(real, localns=_names()).get("return", Any)
    if typing.get_origin(returns) in (Awaitable, Coroutine):
        assert shown.is_async, f"{shown.name} has to be awaited"
        # `Awaitable[None]` has None itself as its argument, not the type of it.
        returns = typing.get_args(returns)[-1] or types.NoneType
    else:
        assert inspect.iscoroutinefunction(real) == shown.is_async, shown.name
    assert _covers(shown.returns, returns), f"{shown.name} returns {returns}"


def _covers(wide: Any, narrow: Any) -> bool:
    """Whether every value of the type `narrow` is one of the type `wide`, as far as types tell."""
    if Any in (wide, narrow) or wide == narrow:
        return True
    if _is_union(narrow):
        return all(_covers(wide, member) for member in typing.get_args(narrow))
    if _is_union(wide):
        return any(_covers(member, narrow) for member in typing.get_args(wide))
    wide_origin = typing.get_origin(wide) or wide
    narrow_origin = typing.get_origin(narrow) or narrow
    if wide_origin is not narrow_origin:
        return False
    pairs = zip(typing.get_args(wide), typing.get_args(narrow), strict=False)
    return all(_covers(one, other) for one, other in pairs)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (types.UnionType, typing.Union)
