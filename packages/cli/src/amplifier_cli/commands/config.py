"""`amplifier config`: show settings with the file that set each, and change the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, say_json
from amplifier_cli.terminal import fitted, notice, print_columns, screen_width
from amplifier_sandbox.visible_text import json_text

if TYPE_CHECKING:
    from amplifier_foundation.settings import Settings

_KEY = click.argument("key")


@click.group()
def config() -> None:
    """Show and change settings."""


@config.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_settings(as_json: bool) -> None:
    """List every setting that applies here, and the file that set it."""
    settings = _settings()
    found = [(each.key, _shown(each.value, each.key), each.layer) for each in settings.all()]
    if as_json:
        say_json(
            [
                {"key": key, "value": value, "scope": layer.scope, "file": str(layer.path)}
                for key, value, layer in found
            ]
        )
        return
    room = max(screen_width() - 50, 30)
    print_columns(
        [(key, fitted(_text(value), room), layer.scope) for key, value, layer in found],
        ("key", "value", "set by"),
    )
    if not found:
        notice("Nothing is set. Files that can set something: amplifier config path")
    for path in settings.withheld:
        notice(f"{path} is not used: this folder is not trusted (amplifier trust)", level="warning")


@config.command()
@_KEY
def get(key: str) -> None:
    """Print the value of a setting, such as bundle.active."""
    value = _settings().get(key)
    if value is None:
        raise CommandError(f"`{key}` is not set.", fix="amplifier config list")
    say(_text(_shown(value, key)))


@config.command("set")
@_KEY
@click.argument("value")
def set_(key: str, value: str) -> None:
    """Change a setting of yours: amplifier config set bundle.active NAME.

    VALUE is read as YAML: true, 4, [a, b] and text without quotes.
    """
    from amplifier_foundation.settings import set_user_setting  # noqa: PLC0415 - reads YAML

    notice(f"{key} is set ({set_user_setting(key, value)})")


@config.command()
@_KEY
def unset(key: str) -> None:
    """Remove a setting of yours."""
    from amplifier_foundation.settings import unset_user_setting  # noqa: PLC0415 - reads YAML

    path = unset_user_setting(key)
    if path is None:
        raise CommandError(f"`{key}` is not set in your own file.", fix="amplifier config list")
    notice(f"{key} is no longer set ({path})")


@config.command()
def path() -> None:
    """Print the files that settings are read from; later ones win."""
    from amplifier_foundation import paths  # noqa: PLC0415 - as above

    settings = _settings()
    read = {layer.path for layer in settings.layers}
    files = (
        paths.user_settings(settings.home),
        paths.project_settings(settings.project),
        paths.local_settings(settings.project),
    )
    for file in files:
        if file in read:
            state = "read"
        elif file in settings.withheld:
            state = "not trusted"
        else:
            state = "does not exist"
        say(f"{file}  ({state})")


def _settings() -> Settings:
    from amplifier_foundation.prepare import current_settings  # noqa: PLC0415 - reads YAML

    return current_settings(Path.cwd())


def _shown(value: Any, key: str) -> Any:
    """Return a value without keys: a setting that holds one is named like one."""
    from amplifier_core.redaction import redact_secrets  # noqa: PLC0415 - the kernel

    name = key.rpartition(".")[2]
    return redact_secrets({name: value})[name]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)
