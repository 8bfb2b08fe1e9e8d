"""Ways to run the blocks of the contracts that are neither a program nor the body of a function."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
import tomllib
from inspect import CO_COROUTINE
from pathlib import Path
from types import FunctionType
from typing import Any

import yaml

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_foundation.sources import SourceResolver
from contract.seed_modules import module_source
from contract.seeds import BLOCKS, run_block

__all__ = [
    "PLAN",
    "compare_fields",
    "compare_protocol",
    "entry_points_of",
    "events_of",
    "module_names",
    "run_body_and",
    "run_part",
    "run_tests_of",
    "session_from_block",
    "values_of",
]


def module_names(kind: str) -> dict[str, Any]:
    """Return the names of the module of a kind, which is put together from the blocks."""
    names: dict[str, Any] = {"__name__": f"my_{kind}"}
    exec(compile(module_source(kind), f"my_{kind}", "exec", dont_inherit=True), names)
    return names


async def run_part(text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a part of a block as the body of an async module."""
    code = compile(text, "part", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & CO_COROUTINE:
        await FunctionType(code, names)()
    else:
        exec(code, names)
    return names


async def values_of(name: str, names: dict[str, Any] | None = None) -> list[Any]:
    """Run a block and return the values of the expressions in it that it does nothing with."""
    namespace = {} if names is None else names
    tree = ast.parse(BLOCKS[name].text)
    values: list[Any] = []
    for node in tree.body:
        if isinstance(node, ast.Expr):
            values.append(eval(ast.unparse(node.value), namespace))
        else:
            exec(ast.unparse(node), namespace)
    return values


async def run_body_and(name: str, names: dict[str, Any], then: str) -> Any:
    """Run a block that contains `return` as a function's body, with a last line of the test's."""
    body = textwrap.indent(f"{BLOCKS[name].text}\n{then}", "    ")
    source = f"async def body({', '.join(names)}):\n{body}"
    namespace: dict[str, Any] = {}
    exec(compile(source, name, "exec", dont_inherit=True), namespace)
    return await namespace["body"](**names)


async def run_tests_of(name: str, names: dict[str, Any], filled_in: str = "{...}") -> list[str]:
    """Run the test functions that a block defines, and return their names.

    `filled_in` is what the placeholder `{...}` stands for.
    """
    found = await run_part(BLOCKS[name].text.replace("{...}", filled_in), names)
    tests = [each for each in found if each.startswith("test_")]
    for each in tests:
        async with asyncio.timeout(120):
            await found[each]()
    return tests


def compare_protocol(shown: type, real: type) -> None:
    """Check that a protocol of ours has every member of the one that a block shows.

    Ours may take more parameters than are shown, if they can be left out.
    """
    members = [each for each in vars(shown) if each == "__call__" or not each.startswith("_")]
    assert members, shown
    for name in members:
        ours = inspect.getattr_static(real, name)
        theirs = inspect.getattr_static(shown, name)
        assert isinstance(ours, property) == isinstance(theirs, property), name
        if isinstance(theirs, property):
            _compare(name, theirs.fget, ours.fget)
        else:
            _compare(name, theirs, ours)


def _compare(name: str, theirs: Any, ours: Any) -> None:
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs), name
    shown = inspect.signature(theirs)
    given = inspect.signature(ours)
    named = [each for each in shown.parameters.values() if each.kind is not each.VAR_KEYWORD]
    order = [each for each in given.parameters if each in shown.parameters and each != "kwargs"]
    assert order == [each.name for each in named], name
    for parameter in named:
        own = given.parameters[parameter.name]
        assert own.default == parameter.default, (name, parameter)
        assert _words(own.annotation) == _words(parameter.annotation), (name, parameter)
    more = [each for key, each in given.parameters.items() if key not in shown.parameters]
    optional = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    assert all(each.kind in optional or each.default is not each.empty for each in more), name
    assert _words(given.return_annotation) == _words(shown.return_annotation), name


def _words(annotation: Any) -> str:
    """Return an annotation as text, without the modules that its names come from."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"[\w.]+\.(\w+)", r"\1", text)


def compare_fields(shown: Any, real: Any) -> None:
    """Check that a model of ours has the fields of the one that a block shows."""
    for name, field in shown.model_fields.items():
        ours = real.model_fields[name]
        assert ours.annotation == field.annotation, name
        assert ours.is_required() == field.is_required(), name
        assert ours.default == field.default, name


PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock"}],
}


async def session_from_block(name: str, folder: Path, **sections: Any) -> AmplifierSession:
    """Return a session whose plan has the section that a block shows.

    Its address cannot be fetched: as for a developer who works on the module, an override leads to
    `folder`.
    """
    section = yaml.safe_load(BLOCKS[name].text)
    home = folder.parent / "home"
    resolver = SourceResolver(home, overrides={folder.name: str(folder)})
    session = AmplifierSession({**PLAN, **sections, **section})
    await session.coordinator.mount("module-source-resolver", resolver)
    return session


def entry_points_of(name: str) -> dict[str, str]:
    """Return the modules that the `pyproject.toml` of a block declares."""
    declared = tomllib.loads(BLOCKS[name].text)["project"]["entry-points"]
    assert list(declared) == ["amplifier.modules"]
    return declared["amplifier.modules"]


async def events_of(name: str) -> Any:
    """Run a block that registers a contributor, and return what is collected."""
    coordinator = MockCoordinator()
    await run_block(name, {"coordinator": coordinator})
    (collected,) = await coordinator.collect_contributions("observability.events")
    return collected
