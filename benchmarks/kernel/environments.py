"""The virtual environments the systems run in: built once, rebuilt when what they hold changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from amplifier_sandbox.platforms.locks import locked

ROOT = Path(__file__).resolve().parents[2]
ORIGINAL = "amplifier-core==2.0.2"
OUR_FOLDERS = (
    "packages/core",
    "packages/kit",
    "packages/sandbox",
    "modules/loops",
    "modules/contexts",
    "modules/provider-mock",
)


class SetupError(Exception):
    """An environment could not be built."""


def prepare_ours() -> Path:
    """Build the environment of the working tree; return its interpreter.

    The packages are installed editable, so that an edit is measured without a new build. A
    module that does not exist yet is left out, and its rows report so.

    Raises:
        SetupError: the kernel is not there, or its installation failed.
    """
    folders = [folder for folder in OUR_FOLDERS if (ROOT / folder / "pyproject.toml").is_file()]
    if OUR_FOLDERS[0] not in folders:
        raise SetupError(f"{OUR_FOLDERS[0]} has no pyproject.toml")
    definitions = [(ROOT / folder / "pyproject.toml").read_text("utf-8") for folder in folders]
    arguments = [part for folder in folders for part in ("--editable", str(ROOT / folder))]
    return prepare("ours", arguments, state=definitions)


def prepare_original() -> Path:
    """Build the environment of the original from the package index; return its interpreter.

    Raises:
        SetupError: the installation failed.
    """
    return prepare("original", [ORIGINAL], state=[])


def prepare(name: str, arguments: list[str], *, state: list[str]) -> Path:
    """Build an environment, unless it is there from the same `state`; return its interpreter.

    Raises:
        SetupError: the installation failed.
    """
    folder = _cache_folder() / name
    python = folder / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    if constraints.is_file():
        # Both systems get the same pydantic.
        arguments = ["--constraint", str(constraints), *arguments]
        state = [*state, constraints.read_text("utf-8")]
    stamp = folder / "built-from.txt"
    wanted = "\n".join([sys.version, *arguments, *state])
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Tests that run at the same time need the same environment.
    with locked(folder.parent / f"{name}.lock"):
        if stamp.is_file() and stamp.read_text("utf-8") == wanted:
            return python
        print(f"building the environment `{name}` ...", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", *arguments])
        stamp.write_text(wanted, "utf-8")
    return python


def _cache_folder() -> Path:
    return Path(os.environ.get("AMPLIFIER_BENCH_DIR") or ROOT / ".bench")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"`{' '.join(command[:6])} ...` failed:\n{done.stderr.strip()[-800:]}")
