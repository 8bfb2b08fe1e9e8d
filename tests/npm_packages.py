"""Programs of the npm registry that tests run, each in one exact version."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "build" / "npm"


def npm_package(name: str, version: str) -> Path:
    """Return the folder of a package, installed if it is not there in this version."""
    # One folder for each: npm removes from a folder what it was not asked to install.
    folder = _FOLDER / name.replace("/", "-")
    home = folder / "node_modules" / name
    manifest = home / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text("utf-8"))["version"] != version:
        npm = shutil.which("npm")
        assert npm is not None, f"npm is needed to install {name}, and it is not on the PATH"
        command = [npm, "install", "--prefix", str(folder), "--no-save", f"{name}@{version}"]
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=300)
    return home
