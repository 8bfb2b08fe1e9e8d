"""`amplifier trust`: let the user decide whether a folder's files are used."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, say_json, styled
from amplifier_cli.terminal import confirm, heading, is_terminal, notice
from amplifier_foundation import paths
from amplifier_foundation.config.addresses import UNREADABLE
from amplifier_foundation.trust import Trust, TrustStatus
from amplifier_sandbox.project_folder import project_root
from amplifier_sandbox.visible_text import exact


def _project(_context: click.Context, _parameter: click.Parameter, folder: Path) -> Path:
    """Return the project that a folder is part of: it is trusted as a whole."""
    return project_root(folder.resolve())


_FOLDER = click.argument(
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    callback=_project,
)


_ORIGINS = click.option(
    "--origin", "origins", multiple=True, help="An address that may receive requests."
)
_NAMED = click.option(
    "--file",
    "named",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="This file of the folder, too, such as a bundle, and what it names.",
)

# Prefixes of the addresses of fetched bundles and modules.
_FETCHED = ("git+", "zip+")


@click.group(invoke_without_command=True)
@_ORIGINS
@_NAMED
@click.pass_context
def trust(context: click.Context, origins: tuple[str, ...], named: tuple[Path, ...]) -> None:
    """Allow or revoke a repository's settings, instructions and modules.

    Settings, bundles and instructions that come with a folder do nothing before you have seen and
    trusted them; a change of one of them is asked about again. Without a command: show, then ask.
    """
    if context.invoked_subcommand is None:
        context.invoke(
            grant, folder=project_root(Path.cwd()), origins=origins, named=named, yes=False
        )


@trust.command()
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(folder: Path, as_json: bool) -> None:
    """Show which files of a folder would take effect, and whether they are trusted."""
    status = Trust(paths.home()).status(folder)
    if as_json:
        facts = {"files": status.files, "changed": status.changed}
        facts |= {"unverifiable": status.unverifiable, "reasons": status.reasons}
        addresses = {"origins": status.origins, "granted": status.granted}
        say_json({"folder": str(folder), "trusted": status.trusted, **facts, **addresses})
        return
    _describe(folder, status)


@trust.command()
@_FOLDER
@_ORIGINS
@_NAMED
@click.option("-y", "--yes", is_flag=True, help="Do not ask; for scripts of your own.")
def grant(folder: Path, origins: tuple[str, ...], named: tuple[Path, ...], yes: bool) -> None:
    """Trust the files of a folder as they are now.

    Code in them runs with your rights, and nothing looks through it for you: read it first.
    """
    decisions = Trust(paths.home())
    status = decisions.status(folder, named)
    _describe(folder, status)
    known = set(status.origins)
    if any(origin.startswith(_FETCHED) for origin in known):
        # A fetched bundle may name further addresses, which are not in this folder's files.
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
    # The digest of what was shown: a file that changed while the user read is refused.
    decisions.record(folder, status.digest, origins=allowed, named=named)
    notice("Trusted. Take it back: amplifier trust revoke")


def _options(origins: tuple[str, ...], named: tuple[Path, ...]) -> list[str]:
    """Return the options as they were given, for a command that can be pasted."""
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
