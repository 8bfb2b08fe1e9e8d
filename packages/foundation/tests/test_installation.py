"""The commands that install beside our distributions, and the one that puts them back."""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import amplifier_core
import amplifier_foundation
from amplifier_foundation import installation
from amplifier_foundation.installation import (
    CONSTRAINTS,
    ForeignKernelError,
    install_command,
    own_versions,
    refuse_foreign_kernel,
    repair_command,
    runtime_command,
)


def _installed_from(monkeypatch: pytest.MonkeyPatch, recorded: dict[str, Any]) -> None:
    def read(distribution: str) -> dict[str, Any]:
        return recorded

    monkeypatch.setattr(installation, "_direct_url", read)


def test_the_constraints_name_the_distributions_that_are_installed() -> None:
    versions = own_versions()

    assert versions["amplifier-foundation"] == amplifier_foundation.__version__
    assert versions["amplifier-core"] == amplifier_core.__version__
    assert {name: version(name) for name in versions} == versions


def test_an_install_command_passes_our_constraints_and_quotes_what_it_installs() -> None:
    words = shlex.split(install_command("some module"))

    assert words == [sys.executable, "-m", "pip", "install", "-c", str(CONSTRAINTS), "some module"]


def test_where_pip_is_not_installed_uv_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", find_nothing)

    words = shlex.split(install_command("x"))

    assert words[:5] == ["uv", "pip", "install", "--python", sys.executable]


@pytest.mark.parametrize("stated", ["2.0.3", "2.0.2+independent.0.1.0", "2.0.2+elsewhere.0.2.0"])
def test_a_kernel_of_another_origin_or_release_is_refused(
    monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    foreign = ModuleType("amplifier_core")
    foreign.__dict__["__version__"] = stated
    monkeypatch.setitem(sys.modules, "amplifier_core", foreign)

    with pytest.raises(ForeignKernelError) as refused:
        refuse_foreign_kernel("0.2.0")

    what, why, fix = str(refused.value).splitlines()
    assert what.endswith(f": {stated}.")
    assert own_versions()["amplifier-core"] in why
    assert fix == repair_command()


def test_a_kernel_without_a_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amplifier_core", ModuleType("amplifier_core"))

    with pytest.raises(ForeignKernelError, match="of unknown version"):
        refuse_foreign_kernel("0.2.0")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have this environment made by the script of a clone, with one extra."""
    script = tmp_path / "a clone" / "install.sh"
    script.parent.mkdir()
    script.touch()
    prefix = tmp_path / ".local" / "share" / "amplifier"
    prefix.mkdir(parents=True)
    told = f"{script}\n{tmp_path / '.local' / 'bin'}\nmcp\n"
    (prefix / "installed-by").write_text(told, encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setenv("HOME", str(tmp_path))
    _installed_from(monkeypatch, {})
    return script


def test_the_repair_of_an_install_by_the_script_runs_it_again(script: Path) -> None:
    assert repair_command() == f"'{script}' mcp"
    assert runtime_command() == f"'{script}' mcp,durable"


def test_a_script_that_installed_elsewhere_is_given_the_same_folders(
    monkeypatch: pytest.MonkeyPatch, script: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/nobody")

    folders = f"AMPLIFIER_INSTALL={sys.prefix} AMPLIFIER_BIN={tmp_path}/.local/bin"
    assert repair_command() == f"{folders} '{script}' mcp"


def test_a_script_that_is_gone_is_not_named(script: Path) -> None:
    script.unlink()

    assert "--find-links FOLDER" in repair_command()
    assert "--find-links FOLDER 'amplifier-cli[durable]'" in runtime_command()


def test_the_repair_of_an_install_from_a_clone_runs_the_documented_lines_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "a clone" / "packages" / "foundation"
    package.mkdir(parents=True)
    _installed_from(monkeypatch, {"url": package.as_uri(), "dir_info": {}})

    command = repair_command()

    assert command.startswith(f"(cd '{tmp_path}/a clone' && ")
    assert command.endswith(" -m pip install -r requirements.txt -c constraints.txt)")


def test_the_repair_of_an_editable_install_is_the_setup_of_its_clone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "packages" / "foundation"
    package.mkdir(parents=True)
    _installed_from(monkeypatch, {"url": package.as_uri(), "dir_info": {"editable": True}})

    assert repair_command() == f"make -C {tmp_path} setup"


def test_the_repair_of_an_install_from_a_wheel_takes_the_kernel_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = tmp_path / "amplifier_foundation-0.2.0-py3-none-any.whl"
    wheel.touch()
    _installed_from(monkeypatch, {"url": wheel.as_uri(), "archive_info": {}})

    words = shlex.split(repair_command())

    assert words[4:] == [
        "--force-reinstall",
        "--no-deps",
        "--find-links",
        str(tmp_path),
        f"amplifier-core=={own_versions()['amplifier-core']}",
    ]


@pytest.mark.parametrize("recorded", [{}, {"url": "file:///no/such/clone/packages/foundation"}])
def test_the_repair_of_an_install_from_an_unknown_place_asks_for_the_folder(
    monkeypatch: pytest.MonkeyPatch, recorded: dict[str, Any]
) -> None:
    _installed_from(monkeypatch, recorded)

    assert "--find-links FOLDER" in repair_command()
    assert "FOLDER is the folder of wheels" in ForeignKernelError("2.0.3").why
