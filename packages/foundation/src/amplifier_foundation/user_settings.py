"""Changes to the person's own settings file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from amplifier_foundation import paths
from amplifier_foundation.config.documents import read_text
from amplifier_foundation.errors import SettingsError
from amplifier_kit.durable_files import make_private_folder, write_whole

__all__ = ["change_user_settings"]


def change_user_settings(change: Callable[[dict[str, Any]], None]) -> Path:
    """Apply `change` to what the file says, write it whole, and return where it is.

    Comments do not survive a change, so a file with comments is kept beside it as `.bak`.
    """
    path = paths.user_settings(paths.home())
    text = read_text(path, error=SettingsError) if path.is_file() else ""
    try:
        values: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML.", why=str(error)) from error
    change(values)
    make_private_folder(path.parent)
    if "#" in text:
        write_whole(path.with_suffix(".yaml.bak"), text.encode())
    write_whole(path, yaml.safe_dump(values, sort_keys=False).encode())
    return path
