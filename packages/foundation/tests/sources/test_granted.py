"""Code of a project: what the resolver admits, and from where it is loaded."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.errors import ModuleNotFoundError  # noqa: A004 - the contract's name
from amplifier_foundation.sources import SourceResolver, UngrantedError
from amplifier_foundation.sources.granted import ProjectCode
from amplifier_foundation.trust import Trust

PACKAGE = "amplifier_module_tool_echo"
Grant = Callable[..., SourceResolver]


@pytest.fixture
def module(project: Path, module_code: str) -> Path:
    """A module in a folder of the project."""
    package = project / "mods" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(module_code, encoding="utf-8")
    return package.parent


@pytest.fixture
def code(home: Path, project: Path) -> Callable[..., ProjectCode]:
    """Make the record of code that the user trusts: the named files and folders, as they are."""

    def grant(*names: str) -> ProjectCode:
        status = Trust(home).status(project, [project / name for name in names])
        return ProjectCode(project, home, status.digests)

    return grant


def test_code_is_loaded_from_a_copy_of_what_was_trusted(
    code: Callable[..., ProjectCode], home: Path, project: Path, module: Path
) -> None:
    resolver = SourceResolver(home, base=project, code=code("mods"))

    located = resolver.locate("tool-echo", "./mods")

    assert located.path.is_relative_to(home / "trusted")
    assert located.package_dir == located.path / PACKAGE
    text = (module / PACKAGE / "__init__.py").read_bytes()
    assert (located.path / PACKAGE / "__init__.py").read_bytes() == text
    again = SourceResolver(home, base=project, code=code("mods"))
    assert again.locate("tool-echo", "./mods").path == located.path


@pytest.mark.attack("review H3")
@pytest.mark.parametrize("change", ["other", "more", "less", "link", "compiled"])
def test_a_folder_that_is_not_what_was_trusted_is_refused(
    change: str, code: Callable[..., ProjectCode], home: Path, project: Path, module: Path
) -> None:
    resolver = SourceResolver(home, base=project, code=code("mods"))
    package = module / PACKAGE
    if change == "other":
        (package / "__init__.py").write_text("other", encoding="utf-8")
    elif change == "more":
        (module / "json.py").touch()
    elif change == "less":
        (package / "__init__.py").unlink()
    elif change == "link":
        (package / "__init__.py").rename(project / "same.py")
        (package / "__init__.py").symlink_to(project / "same.py")
    else:
        (package / "__pycache__").mkdir()
        (package / "__pycache__" / "__init__.cpython-311.pyc").touch()

    with pytest.raises(UngrantedError, match="is not what you trusted") as refused:
        resolver.locate("tool-echo", "./mods")

    assert refused.value.exit_code == 3
    assert refused.value.fix == "amplifier trust --file mods"


@pytest.mark.attack("review H3")
def test_a_copy_that_somebody_changed_is_made_again(
    code: Callable[..., ProjectCode], home: Path, project: Path, module: Path
) -> None:
    first = code("mods").admit("tool-echo", module)
    (first / PACKAGE / "__init__.py").write_text("evil", encoding="utf-8")
    (first / "more.py").write_text("evil", encoding="utf-8")

    again = code("mods").admit("tool-echo", module)

    assert again == first
    assert [each.name for each in again.rglob("*.py")] == ["__init__.py"]
    text = (module / PACKAGE / "__init__.py").read_bytes()
    assert (again / PACKAGE / "__init__.py").read_bytes() == text


@pytest.mark.attack("review H3")
@pytest.mark.parametrize("source", ["./link", "./mods/../link", "{outside}/link"])
def test_a_link_into_the_project_does_not_hide_where_it_leads(
    source: str,
    code: Callable[..., ProjectCode],
    home: Path,
    project: Path,
    module: Path,
    tmp_path: Path,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "link").symlink_to(module)
    (project / "link").symlink_to(module)
    resolver = SourceResolver(home, base=project, code=code())

    with pytest.raises(UngrantedError, match="you have not trusted it"):
        resolver.locate("tool-echo", source.format(outside=outside))


def test_a_folder_that_the_user_named_and_one_elsewhere_are_loaded_in_place(
    code: Callable[..., ProjectCode], home: Path, project: Path, module: Path, tmp_path: Path
) -> None:
    typed = code()
    typed.allow([module])

    assert typed.admit("tool-echo", module) == module
    assert typed.admit("tool-echo", tmp_path) == tmp_path


@pytest.mark.attack("review H3")
@pytest.mark.usefixtures("module")
def test_a_distribution_in_the_project_does_not_count_as_installed(
    code: Callable[..., ProjectCode],
    home: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metadata = project / "mods" / "echo-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: echo\nVersion: 1.0\n")
    declared = f"[amplifier.modules]\ntool-echo = {PACKAGE}:mount\n"
    (metadata / "entry_points.txt").write_text(declared)
    monkeypatch.setattr(sys, "path", [str(project / "mods"), *sys.path])

    with pytest.raises(UngrantedError, match="you have not trusted it"):
        SourceResolver(home, base=project, code=code()).resolve("tool-echo")

    with pytest.raises(ModuleNotFoundError, match="its entry point leads to it"):
        SourceResolver(home, base=project).resolve("tool-echo")


@pytest.mark.usefixtures("module")
def test_two_sessions_that_make_the_same_copy_both_load_it(
    code: Callable[..., ProjectCode], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = code("mods"), code("mods")
    copyfile = shutil.copyfile
    made: list[Path] = []

    def copy(source: Path, target: Path) -> None:
        monkeypatch.setattr(shutil, "copyfile", copyfile)
        made.append(other.admit("tool-echo", project / "mods"))
        copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy)
    assert [mine.admit("tool-echo", project / "mods")] == made
    assert made[0].is_dir()
    assert len(list(made[0].parent.parent.iterdir())) == 1
