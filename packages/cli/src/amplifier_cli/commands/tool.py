"""`amplifier tool`: list and describe the tools of a session, and call one."""

from __future__ import annotations

import asyncio
import json
import shlex
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, say_json, styled
from amplifier_cli.terminal import fitted, heading, notice, print_columns, screen_width
from amplifier_kit.tools import execute_tool

if TYPE_CHECKING:
    from amplifier_cli.bare_session import MountedTools

_BUNDLE = click.option("-b", "--bundle", help="Tools of this bundle.")
_MODULE = click.option(
    "--module", "modules", multiple=True, metavar="FOLDER-OR-ID", help="And of this module."
)


@click.group()
def tool() -> None:
    """List tools, and call one yourself."""


@tool.command("list")
@_BUNDLE
@_MODULE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tools(as_json: bool, **options: Any) -> None:
    """List the tools that a session here would have."""

    async def look() -> list[tuple[str, str, str]]:
        from amplifier_core.effects import declaration_of  # noqa: PLC0415 - the kernel

        async with _tools(**options) as found:
            for name, reason in found.missing.items():
                notice(f"{name} is not there: {reason}")
            return [
                (name, declaration_of(each).effect, each.description)
                for name, each in sorted(found.tools.items())
            ]

    found = asyncio.run(look())
    if as_json:
        keys = ("name", "effect", "description")
        say_json([dict(zip(keys, each, strict=True)) for each in found])
        return
    room = max(screen_width() - 34, 30)
    print_columns(
        [(name, effect, fitted(description, room)) for name, effect, description in found],
        ("tool", "effect", "what it does"),
    )


@tool.command()
@click.argument("name")
@_BUNDLE
@_MODULE
def show(name: str, **options: Any) -> None:
    """Show what a tool says of itself, and its input."""

    async def look() -> None:
        from amplifier_core.effects import declaration_of  # noqa: PLC0415 - the kernel
        from amplifier_core.interfaces import input_schema_of  # noqa: PLC0415 - as above

        async with _tools(**options) as mounted:
            found = _named(mounted, name)
            declared = declaration_of(found)
            heading(name)
            say(found.description)
            say()
            rows = [("effect", declared.effect), ("output trusted", str(declared.output_trusted))]
            if declared.deadline_seconds:
                rows.append(("deadline", f"{declared.deadline_seconds:g} s"))
            print_columns((styled(key, dim=True), value) for key, value in rows)
            say()
            say_json(input_schema_of(found))

    asyncio.run(look())


@tool.command()
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "given", help="The whole input as JSON.")
@_BUNDLE
@_MODULE
@click.pass_context
def invoke(
    context: click.Context, name: str, arguments: tuple[str, ...], given: str | None, **options: Any
) -> None:
    """Call one tool yourself. No model and no rule is asked: it is you who calls.

    A VALUE that is JSON is taken as such, anything else as text.
    """
    values = _input(name, arguments, given)

    async def call() -> Any:
        async with _tools(**options) as mounted:
            return await execute_tool(_named(mounted, name), values)

    result = asyncio.run(call())
    # A call that failed may have both: what a command printed says more than its exit code.
    for part in (result.output, result.error):
        if isinstance(part, str):
            say(part)
        elif part is not None:
            say_json(part)
    context.exit(0 if result.success else 1)


def _tools(**options: Any) -> AbstractAsyncContextManager[MountedTools]:
    from amplifier_cli.bare_session import mounted_tools  # noqa: PLC0415 - the kernel
    from amplifier_foundation.prepare import SessionOptions  # noqa: PLC0415 - as above

    return mounted_tools(SessionOptions(**options))


def _named(mounted: MountedTools, name: str) -> Any:
    if name not in mounted.tools:
        others = f"There is: {', '.join(sorted(mounted.tools)) or 'none'}."
        reason = mounted.missing.get(name)
        raise CommandError(
            f"There is no tool `{name}`.",
            why=others if reason is None else f"Nobody brings it: {reason}.",
            fix="amplifier tool list",
        )
    return mounted.tools[name]


def _input(name: str, arguments: tuple[str, ...], given: str | None) -> dict[str, Any]:
    fix = f"amplifier tool show {shlex.quote(name)}"
    try:
        read: Any = {} if given is None else json.loads(given)
    except ValueError as error:
        raise CommandError(f"--input is not JSON: {error}", fix=fix) from error
    if not isinstance(read, dict):
        raise CommandError("--input is no JSON object.", fix=fix)
    values = cast("dict[str, Any]", read)
    for each in arguments:
        key, equals, text = each.partition("=")
        if not equals:
            raise CommandError(f"`{each}` is not KEY=VALUE.", fix=fix)
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
    return values
