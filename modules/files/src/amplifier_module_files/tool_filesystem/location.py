"""The folder of a session's checkpoints."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from amplifier_kit.session_folder import folder_name, project_name
from amplifier_sandbox.files.names import protected_part
from amplifier_sandbox.files.workspace import Workspace
from amplifier_sandbox.home import amplifier_home, expanded
from amplifier_sandbox.own.paths import hidden_paths


def checkpoint_folder(workspace: Workspace, configured: Path | None, session_id: str) -> Path:
    """Return the folder of this project and session; raises ValueError if tools can write to it."""
    working = workspace.roots[0].path
    if configured is None:
        base = amplifier_home() / "checkpoints"
    else:
        base = expanded(configured)
    # A relative folder is inside the working folder, and therefore refused below.
    folder = working / base / project_name(working) / folder_name(session_id)
    real = PurePosixPath(os.path.realpath(folder))
    is_inside = any(root.name_of(real) is not None for root in workspace.roots)
    is_hidden = any(real.is_relative_to(path) for path in hidden_paths())
    if is_inside and not is_hidden and protected_part(real) is None:
        raise ValueError(f"checkpoint_dir: `{folder}` must be outside of the workspace.")
    return folder
