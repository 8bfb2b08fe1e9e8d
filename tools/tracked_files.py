"""The files of a working tree that are in git, or would be after `git add`."""

from __future__ import annotations

import subprocess
from pathlib import Path


def tracked_files(root: Path) -> list[Path]:
    """Return their paths relative to `root`, sorted; deleted and ignored files are left out.

    Raises:
        subprocess.CalledProcessError: `root` is not inside a git working tree.
    """
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout.decode("utf-8")
    paths = {Path(name) for name in listing.split("\0") if name}
    return sorted(path for path in paths if (root / path).is_file())


def read_text(path: Path) -> str | None:
    """Return the text of a file, or None when it is not UTF-8 text."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
