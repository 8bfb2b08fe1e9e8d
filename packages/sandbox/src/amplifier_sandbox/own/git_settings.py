"""Whether git, started in a folder, could run a program that the folder names.

This is a list of allowed settings, not of forbidden ones: git has dozens of settings that name
programs, and gets new ones. A line that cannot be parsed counts as one that names a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_HOOKS = "core.hooksPath"
# The values of these keys in a repository have no effect under `git_environment`.
_OVERRIDES = {
    # Programs have no terminal here, so that every editor would fail.
    "core.editor": "false",
    "core.fsmonitor": "false",
    _HOOKS: "/dev/null",
    "core.pager": "cat",
    "protocol.ext.allow": "never",
    # It would write to `.git/info`, which is read-only.
    "repack.updateServerInfo": "false",
}
_MOST_BYTES = 1_000_000
_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\["\\])*)")?\]')
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


# Sections in which no key names a program or a file with more settings.
_HARMLESS_SECTIONS = _words(
    "advice apply author blame branch checkout color column commit committer fetch http i18n index"
    " init log pack pull push rebase rerere stash status tag transfer user versionsort"
)
# The keys in `core` that name programs are here because `_OVERRIDES` has them.
_HARMLESS_KEYS = {
    "core": _words(
        "abbrev attributesFile autocrlf bare bigFileThreshold checkStat commentChar commitGraph"
        " compression deltaBaseCacheLimit editor eol excludesFile fileMode fsmonitor hideDotFiles"
        " hooksPath ignoreCase ignoreStat logAllRefUpdates longPaths multiPackIndex notesRef"
        " packedGitLimit packedGitWindowSize pager precomposeUnicode preloadIndex protectHFS"
        " protectNTFS quotePath repositoryFormatVersion safecrlf sharedRepository sparseCheckout"
        " sparseCheckoutCone splitIndex symlinks trustctime untrackedCache whitespace worktree"
    ),
    "diff": _words(
        "algorithm autoRefreshIndex colorMoved colorMovedWS context dirstat ignoreSubmodules"
        " indentHeuristic interHunkContext mnemonicPrefix noPrefix orderFile relative renameLimit"
        " renames statGraphWidth submodule suppressBlankEmpty wordRegex"
    ),
    "extensions": _words(
        "compatObjectFormat noop objectFormat preciousObjects refStorage relativeWorktrees"
        " worktreeConfig"
    ),
    "feature": _words("experimental manyFiles"),
    "gc": _words(
        "auto autoDetach autoPackLimit pruneExpire reflogExpire reflogExpireUnreachable"
        " worktreePruneExpire writeCommitGraph"
    ),
    "lfs": _words("repositoryFormatVersion"),
    "maintenance": _words("auto strategy"),
    "merge": _words(
        "autoStash conflictStyle defaultToUpstream directoryRenames ff log renameLimit renames"
        " stat verbosity"
    ),
    "submodule": _words("active fetchJobs propagateBranches recurse"),
}
# Keys of sections with a name, such as `remote "origin"`.
_HARMLESS_NAMED = {
    "diff": _words("algorithm binary cacheTextconv funcname wordRegex xfuncname"),
    "lfs": _words("access locksVerify"),
    "remote": _words(
        "fetch followRemoteHEAD gh-resolved mirror prune pruneTags push pushurl skipDefaultUpdate"
        " skipFetchAll tagOpt url"
    ),
    "submodule": _words("active branch fetchRecurseSubmodules ignore url"),
}
# What `git lfs install --local` writes: a program of the system, not of the repository.
_LARGE_FILES = {
    "clean": "git-lfs clean -- %f",
    "smudge": "git-lfs smudge -- %f",
    "process": "git-lfs filter-process",
    "required": "true",
}
# The mode of a submodule in the index, 0o160000; a chance match counts as a submodule too.
_SUBMODULE = b"\x00\x00\xe0\x00"


def git_environment(*, hooks: bool = False) -> dict[str, str]:
    """Return variables that keep git from running some of what a repository names.

    With `hooks` its hooks run, which is for commits inside of a sandbox.
    Drivers and filters have any name, so variables cannot override them: see `objection_to_git`.
    """
    # A command can write a `.gitconfig` into its home, which later commands have, too.
    settings = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_PAGER": "cat"}
    overrides = {key: value for key, value in _OVERRIDES.items() if not (hooks and key == _HOOKS)}
    settings["GIT_CONFIG_COUNT"] = str(len(overrides))
    for index, (key, value) in enumerate(overrides.items()):
        settings |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return settings


def objection_to_git(folder: Path) -> str | None:
    """Return why git may run a program that `folder` names, in plain words; None if it cannot.

    Assumes that git runs with `git_environment` and without the settings of user and system.
    """
    for place in (folder, *folder.parents):
        repository = place / ".git"
        try:
            if repository.is_symlink() or repository.exists():
                return _objection_to(repository)
            # git takes such a folder for a bare repository and obeys its settings.
            if (place / "HEAD").exists() and (place / "objects").exists():
                return f"`{place}` is a repository without a working folder"
        except OSError as error:
            return f"`{repository}` cannot be read: {error.strerror}"
    return None


def _objection_to(repository: Path) -> str | None:
    if repository.is_symlink() or not repository.is_dir() or (repository / "commondir").exists():
        return f"`{repository}` leads to a repository elsewhere"
    for name in ("config", "config.worktree"):
        try:
            text = _read(repository / name).decode()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            return f"`{repository / name}` cannot be read: {error}"
        key = next(_suspicious_keys(text), None)
        if key is not None:
            return f"`{repository / name}` has `{key}`, by which git may run a program"
    for index in (repository / "index", *repository.glob("sharedindex.*")):
        if index.exists() and _SUBMODULE in index.read_bytes():
            return "the repository has submodules, and git obeys their settings too"
    return None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is longer than {_MOST_BYTES:,} bytes")
    return data


def _suspicious_keys(text: str) -> Iterator[str]:
    """Yield each key that may name a program, and each line that cannot be parsed."""
    section = ""
    name = None
    # Not `splitlines`: for git only a line feed ends a line.
    for line in text.removeprefix("\ufeff").split("\n"):
        plain = line.strip(" \t\r")
        if not plain or plain[0] in "#;":
            continue
        header = _SECTION.fullmatch(plain)
        entry = _ENTRY.fullmatch(plain)
        if header is not None:
            section = header[1].lower()
            name = header[2]
        # A backslash at the end continues the value on the next line.
        elif entry is None or plain.endswith("\\") or not section:
            yield plain[:80]
        elif not _is_harmless(section, name, entry[1].lower(), entry[2] or ""):
            yield ".".join(filter(None, (section, name, entry[1])))[:80]


def _is_harmless(section: str, name: str | None, key: str, value: str) -> bool:
    if section in _HARMLESS_SECTIONS:
        return True
    if name is None:
        return key in _HARMLESS_KEYS.get(section, ())
    if section == "filter" and name == "lfs":
        return _LARGE_FILES.get(key) == value.strip(' \t\r"')
    return key in _HARMLESS_NAMED.get(section, ())
