"""`amplifier trust`: whether the files of a project folder may act, decided by the person."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, styled
from amplifier_cli.terminal import confirm, heading, is_terminal, notice
from amplifier_foundation import paths
from amplifier_foundation.config.addresses import UNREADABLE
from amplifier_foundation.trust import Trust, TrustStatus
from amplifier_sandbox.visible_text import exact

_FOLDER = click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path()
)


_ORIGINS = click.option(
    "--origin", "origins", multiple=True, help="Address that may be sent requests, too."
)
_NAMED = click.option(
    "--file",
    "named",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="This file of the folder, too, such as a bundle, and what it names.",
)

# How the addresses of bundles and modules begin that are fetched.
_FETCHED = ("git+", "zip+")


@click.group(invoke_without_command=True)
@_ORIGINS
@_NAMED
@click.pass_context
def trust(context: click.Context, origins: tuple[str, ...], named: tuple[Path, ...]) -> None:
    """Decide whether a project folder may act.

    Settings, bundles and instructions that come with a folder do nothing before you have seen and
    trusted them; a change of one of them is asked about again. Without a command: show, then ask.
    """
    if context.invoked_subcommand is None:
        context.invoke(grant, folder=Path(), origins=origins, named=named, yes=False)


@trust.command()
@_FOLDER
def show(folder: Path) -> None:
    """Show what in a folder could act, and what was decided about it."""
    _describe(folder.resolve(), Trust(paths.home()).status(folder))


@trust.command()
@_FOLDER
@_ORIGINS
@_NAMED
@click.option("-y", "--yes", is_flag=True, help="Do not ask; for scripts of your own.")
def grant(folder: Path, origins: tuple[str, ...], named: tuple[Path, ...], yes: bool) -> None:
    """Let the files of a folder act, as they are now.

    Code in them runs with your rights, and nothing looks through it for you: read it first.
    """
    decisions = Trust(paths.home())
    status = decisions.status(folder, named)
    _describe(folder.resolve(), status)
    known = set(status.origins)
    if any(origin.startswith(_FETCHED) for origin in known):
        # A bundle that is fetched may name addresses of its own, which are not in this folder.
        known |= {*origins, *status.granted}
    unknown = sorted(set(origins) - known)
    if unknown:
        raise CommandError(
            f"Nothing in this folder sends requests to {', '.join(unknown)}.",
            why=f"Its files name: {', '.join(status.origins) or 'no address'}.",
        )
    if not status.files:
        notice("There is nothing here that could act, so there is nothing to decide.")
        return
    allowed = sorted({*status.granted, *origins} & known)
    if status.trusted and allowed == sorted(status.granted):
        return
    if not yes:
        if not is_terminal():
            raise CommandError(
                "Nothing was decided.",
                why="There is nobody to ask.",
                fix=shlex.join(["amplifier", "trust", "grant", "--yes", *_options(origins, named)]),
            )
        confirm("Trust these files as they are now?")
    decisions.record(folder, status.digest, origins=allowed, named=named)
    notice("Trusted. Take it back: amplifier trust revoke")


def _options(origins: tuple[str, ...], named: tuple[Path, ...]) -> list[str]:
    """Return the options of a command as they were given."""
    files = [part for path in named for part in ("--file", str(path))]
    return [*files, *(part for origin in origins for part in ("--origin", origin))]


@trust.command()
@_FOLDER
def revoke(folder: Path) -> None:
    """Take trust back."""
    known = Trust(paths.home()).revoke(folder)
    notice("No longer trusted." if known else "It was not trusted.")


def _describe(folder: Path, status: TrustStatus) -> None:
    word, color = ("trusted", "green") if status.trusted else ("not trusted", "yellow")
    heading(f"{exact(str(folder))}: {styled(word, fg=color)}")
    for name in status.files:
        mark = "changed" if name in status.changed else ""
        if name in status.unverifiable:
            mark = "cannot be verified"
        say(f"  {exact(name)}  {styled(mark, fg='yellow')}" if mark else f"  {exact(name)}")
        if name in status.reasons:
            say(f"    {exact(status.reasons[name])}")
    for origin in status.origins:
        say(f"  sends requests to {exact(origin)}: {_decision(origin, status)}")


def _decision(origin: str, status: TrustStatus) -> str:
    if origin.startswith(UNREADABLE):
        return "cannot be allowed, write it as scheme://host:port"
    if origin in status.granted:
        return "allowed"
    return "not allowed (--origin allows it)"
