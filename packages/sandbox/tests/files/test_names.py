"""Names: which are protected in every spelling, and how they are shown."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from amplifier_sandbox.files.names import RefusedError, protected_part, shown
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace

PROTECTED = [
    ".git/config",
    ".git/hooks/pre-commit",
    "sub/.git",
    ".GIT/config",
    ".Git/hooks/x",
    ".git./config",
    ".git /config",
    ".g\u200cit/config",
    "\uff0egit/config",
    "git~1/config",
    ".git::$INDEX_ALLOCATION/config",
    ".amplifier/settings.yaml",
    ".Amplifier/settings.yaml",
    "a/../.git/config",
    ".bashrc",
    ".BASHRC",
    "home/.zshenv",
    ".profile",
    ".gitconfig",
    ".ssh/authorized_keys",
    ".config/fish/config.fish",
]


@pytest.mark.attack("F6")
@pytest.mark.parametrize("name", PROTECTED)
def test_a_protected_name_is_not_for_writing_in_any_spelling(
    workspace: Workspace, work: Path, name: str
) -> None:
    for path in (name, f"{work}/{name}"):
        with pytest.raises(RefusedError) as refused:
            workspace.locate_for_writing(path)
        assert refused.value.rule == "protected"
        assert workspace.locate(path).root.path == work


@pytest.mark.attack("F6")
def test_a_folder_that_was_allowed_is_protected_by_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / ".amplifier").mkdir()
    workspace = Workspace(Root(tmp_path), Root(tmp_path / ".amplifier", writable=True))

    with pytest.raises(RefusedError, match="protected"):
        workspace.locate_for_writing(f"{tmp_path}/.amplifier/settings.yaml")


@pytest.mark.parametrize("name", ["git/config", ".github/ci.yml", ".gitignore", "a.git.md", "git~"])
def test_what_only_looks_similar_is_not_protected(name: str) -> None:
    assert protected_part(PurePosixPath(name)) is None


def test_a_name_is_shown_in_one_short_line_that_does_nothing() -> None:
    assert shown("a\nb\x1b[31m\u202ec") == "a\\nb\\u001b[31m\\u202ec"
    assert shown("\udcff") == "\\udcff"
    assert len(shown("x" * 5_000)) < 350


def test_a_path_belongs_to_the_innermost_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    inner = Root(tmp_path / "inner", writable=False)
    workspace = Workspace(Root(tmp_path), inner)

    for path in (f"{tmp_path}/inner/a", "inner/a", "./x/../inner/a", f"{tmp_path}/x/../inner/a"):
        assert workspace.locate_for_writing(path).root is inner
    assert workspace.locate(f"{tmp_path}/inner/a").root is inner
    assert workspace.locate(f"{tmp_path}/a").name == "a"
    with pytest.raises(RefusedError, match="outside"):
        workspace.locate("/etc/passwd")
