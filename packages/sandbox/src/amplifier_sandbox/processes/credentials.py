"""Which files and folders may have keys in them, by their names."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

__all__ = ["credentials_in", "is_credential", "may_have_credentials"]

_NAMES = frozenset(
    {
        ".aws",
        ".azure",
        ".bash_history",
        ".condarc",
        ".docker",
        ".git-credentials",
        ".gnupg",
        ".kube",
        ".mozilla",
        ".my.cnf",
        ".netrc",
        ".npmrc",
        ".oci",
        ".password-store",
        ".pgpass",
        ".pki",
        ".pypirc",
        ".ssh",
        ".terraform.d",
        ".vault-token",
        ".yarnrc.yml",
        "auth.json",
        "credentials",
        "credentials.json",
        "credentials.toml",
        "keyrings",
        # Settings of an installation can name an index with a password in its address.
        "npmrc",
        "pip.conf",
    }
)
# As a pair, because either name alone means nothing.
_PAIRS = frozenset(
    {(".config", name) for name in ("gcloud", "gh", "git", "hub", "op", "pip", "rclone")}
    | {(".cargo", name) for name in ("config", "config.toml")}
)
# A repository's settings can have a password in an address, and `.env` is a file of variables.
_IN_AN_INSTALLATION = _NAMES | {".env", ".git"}
# Code and data: many files, and packages may have modules of any name.
_NOT_SEARCHED = frozenset({"include", "lib", "lib64", "libexec", "node_modules", "share", "src"})
_DEPTH = 4
_MOST_FOLDERS = 2_000


def is_credential(path: Path) -> bool:
    """Whether a path is that of a file or folder with keys, or is inside of one.

    The case of letters does not matter, because there are file systems on which it does not.
    """
    parts = [part.casefold() for part in path.parts]
    return not _NAMES.isdisjoint(parts) or not _PAIRS.isdisjoint(
        zip(parts, parts[1:], strict=False)
    )


def may_have_credentials(folder: Path) -> bool:
    """Whether a folder has keys by its name, or is one in which other programs keep some."""
    holders = {first for first, _ in _PAIRS}
    return is_credential(folder) or folder.name.casefold() in holders


def credentials_in(folder: Path) -> Iterator[Path]:
    """Yield the files and folders of an installation that may have keys in them.

    Only the folders near its root are searched, where settings are; a link is not followed.
    """
    waiting = deque([(str(folder), 0)])
    searched = 0
    while waiting and searched < _MOST_FOLDERS:
        place, depth = waiting.popleft()
        searched += 1
        try:
            entries = list(os.scandir(place))
        except OSError:
            # It is a file, or cannot be read, by confined programs neither.
            continue
        for entry in entries:
            if entry.is_symlink():
                continue
            name = entry.name.casefold()
            pair = (os.path.basename(place).casefold(), name)  # noqa: PTH119 - many files
            if name in _IN_AN_INSTALLATION or pair in _PAIRS:
                yield Path(entry.path)
            elif depth < _DEPTH and entry.name not in _NOT_SEARCHED and entry.is_dir():
                waiting.append((entry.path, depth + 1))
