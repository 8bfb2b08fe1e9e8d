"""Files of a project that modules of a plan would run, or show to a model, by themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from amplifier_foundation.config.contents import Contents
from amplifier_foundation.config.project_files import is_of_project, refuse_untrusted
from amplifier_foundation.config.server_commands import command_of, script_of, servers_in
from amplifier_foundation.settings import Settings

__all__ = ["refuse_unlisted"]

_SKILLS = "tool-skills"


def refuse_unlisted(plan: dict[str, Any], settings: Settings) -> None:
    """Check the scripts of servers and the folders of skills, after variables were put in.

    Raises:
        TrustError: one of them is the project's, and not on the list that the user decided about.
    """
    for _, server in servers_in(plan):
        for path in _scripts(server, settings):
            if path.is_file() and is_of_project(path, settings):
                refuse_untrusted(path, settings)
    if settings.trusted:
        # Of a folder that is not trusted, no skills are offered.
        for path in _skill_folders(plan, settings):
            for file in Contents(settings.project, settings.home).files(path):
                refuse_untrusted(file, settings)


def _scripts(server: dict[str, Any], settings: Settings) -> list[Path]:
    script = script_of(command_of(server))
    if script is None:
        return []
    return _existing([settings.project / str(server.get("cwd") or ".") / script])


def _skill_folders(plan: dict[str, Any], settings: Settings) -> list[Path]:
    tools: list[dict[str, Any]] = plan.get("tools") or []
    found: list[Path] = []
    for entry in tools:
        config: Any = entry.get("config")
        if entry["module"] == _SKILLS and isinstance(config, dict):
            values = cast("dict[str, Any]", config)
            working = settings.project / str(values.get("working_dir") or ".")
            folders: Any = values.get("paths")
            if isinstance(folders, list):
                found += [working / os.path.expanduser(str(each)) for each in folders]  # noqa: PTH111  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - never raises
    return [path for path in _existing(found) if is_of_project(path, settings)]


def _existing(paths: list[Path]) -> list[Path]:
    """Return the real paths of those that are there."""
    real = [Path(os.path.realpath(path)) for path in paths]
    return [path for path in real if os.path.lexists(path)]
