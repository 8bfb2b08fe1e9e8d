"""`amplifier module`: the group; each command is imported when it is used."""

from __future__ import annotations

import click

from amplifier_cli.lazy_group import LazyCommand, LazyGroup

_MAKING = "amplifier_cli.commands.module_new"
_LISTING = "amplifier_cli.commands.module_list"
_INSTALLING = "amplifier_cli.commands.module_install"

_TABLE = {
    "new": LazyCommand(f"{_MAKING}:new", "Create a module from a template."),
    "validate": LazyCommand(f"{_MAKING}:validate", "Check a module against its contract."),
    "test": LazyCommand(f"{_MAKING}:test", "Run a module's own tests."),
    "list": LazyCommand(f"{_LISTING}:list_modules", "List the installed modules."),
    "show": LazyCommand(f"{_LISTING}:show", "Show one module."),
    "install": LazyCommand(f"{_INSTALLING}:install", "Install the libraries of modules."),
    "lock": LazyCommand(f"{_LISTING}:lock", "Pin every module to its exact bytes."),
}


@click.command(cls=LazyGroup, table=_TABLE)
def module() -> None:
    """Create, check, test and pin modules."""
