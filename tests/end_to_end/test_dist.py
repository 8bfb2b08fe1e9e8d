"""What `make dist` builds can be installed without a clone, by pip, uv and pipx."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from end_to_end.built_once import built_once

_ROOT = Path(__file__).parents[2]
_BIN = Path(sys.executable).parent
_FOREIGN_KERNEL = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "amplifier-core"
version = "2.0.3"
"""

pytestmark = pytest.mark.slow


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """Run a program as another user would have it; returns what it prints."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build every distribution."""

    def build(folder: Path) -> None:
        run(sys.executable, _ROOT / "tools" / "build_dist.py", folder, "--no-sbom", folder=_ROOT)

    return built_once(tmp_path_factory, "dist", build)


def metadata_of(wheel: Path) -> tuple[Message, list[str]]:
    """Return what a wheel says of itself, and the names of its files."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        name = next(each for each in names if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode()), names


def test_every_wheel_says_who_made_it_and_has_the_licence(dist: Path) -> None:
    wheels = sorted(dist.glob("*.whl"))

    assert len(wheels) == len(list(_ROOT.glob("*/*/pyproject.toml")))
    assert len(wheels) == len(list(dist.glob("*.tar.gz")))
    for wheel in wheels:
        metadata, names = metadata_of(wheel)
        assert metadata["License-Expression"] == "MIT", wheel.name
        assert metadata["Author"] == "The Amplifier authors", wheel.name
        assert metadata["Keywords"], wheel.name
        assert metadata.get_all("Classifier"), wheel.name
        assert metadata.get_all("Project-URL"), wheel.name
        assert [each for each in names if each.endswith("licenses/LICENSE")], wheel.name


def test_every_file_has_its_checksum(dist: Path) -> None:
    lines = (dist / "SHA256SUMS").read_text(encoding="utf-8").splitlines()

    sums = {name: sum_ for sum_, name in (line.split("  ") for line in lines)}

    files = [path for path in dist.iterdir() if path.name != "SHA256SUMS"]
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_files_build_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    run(sys.executable, _ROOT / "tools" / "build_dist.py", again, "--no-sbom", folder=_ROOT)

    checksums = "SHA256SUMS"
    assert (again / checksums).read_text("utf-8") == (dist / checksums).read_text("utf-8")


def test_an_sdist_builds_without_the_rest_of_the_repository(dist: Path, tmp_path: Path) -> None:
    sdist = next(dist.glob("amplifier_kit-*.tar.gz"))

    run(_BIN / "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", sdist, folder=tmp_path)

    built = next(tmp_path.glob("*.whl"))
    assert metadata_of(built)[1] == metadata_of(dist / built.name)[1]


@pytest.fixture(scope="module")
def wheels(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collect what an installation needs, so that each way to install it finds the same."""

    def build(folder: Path) -> None:
        download = (_BIN / "pip", "download", "-q", "--only-binary", ":all:", "-d", folder)
        constraints = ("-c", _ROOT / "constraints.txt", "--find-links", dist)
        run(*download, *constraints, "amplifier-cli", folder=folder)

    return built_once(tmp_path_factory, "wheels", build)


@pytest.mark.parametrize("installer", ["pip", "uv", "pipx"])
def test_the_command_is_installed_from_a_folder_of_wheels(
    wheels: Path, tmp_path: Path, installer: str
) -> None:
    from_wheels = ["--no-index", "--find-links", str(wheels)]
    bin_folder = tmp_path / "bin"
    if installer == "pip":
        run(sys.executable, "-m", "venv", tmp_path, folder=tmp_path)
        install = (bin_folder / "pip", "install", "-q", "--no-compile")
        run(*install, *from_wheels, "amplifier-cli", folder=tmp_path)
    elif installer == "uv":
        install = (_BIN / "uv", "tool", "install", "-q", "--python", sys.executable)
        where = {"UV_TOOL_BIN_DIR": str(bin_folder)}
        run(*install, *from_wheels, "amplifier-cli", folder=tmp_path, **where)
    else:
        install = (_BIN / "pipx", "install", "--python", sys.executable, "--pip-args")
        where = {"PIPX_BIN_DIR": str(bin_folder)}
        options = " ".join(["--no-compile", *from_wheels])
        run(*install, options, "amplifier-cli", folder=tmp_path, **where)

    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("one\n", encoding="utf-8")
    command = (bin_folder / "amplifier", "run", "what is in this folder?")
    answered = run(*command, folder=project, HOME=str(tmp_path))

    assert "notes.txt" in answered


def test_a_package_of_ours_never_takes_a_foreign_kernel(tmp_path: Path) -> None:
    foreign = tmp_path / "amplifier-core"
    (foreign / "amplifier_core").mkdir(parents=True)
    (foreign / "amplifier_core" / "__init__.py").write_text("", encoding="utf-8")
    (foreign / "pyproject.toml").write_text(_FOREIGN_KERNEL, encoding="utf-8")
    wheels = tmp_path / "wheels"
    pip = (_BIN / "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "-q", "--no-build-isolation", "-w", wheels, foreign, folder=tmp_path)

    offered = ["--no-build-isolation", "--find-links", str(wheels), "--ignore-installed"]
    refused = subprocess.run(
        [*map(str, pip), "install", "--dry-run", *offered, str(_ROOT / "packages" / "kit")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert refused.returncode != 0
    assert "No matching distribution found for amplifier-core==2.0.2+independent" in refused.stderr


@pytest.fixture(scope="module")
def library(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the library, without the command, into an environment of its own."""

    def build(folder: Path) -> None:
        run(sys.executable, "-m", "venv", folder, folder=folder)
        install = (folder / "bin" / "pip", "install", "-q", "--no-compile")
        constraints = ("-c", _ROOT / "constraints.txt", "--find-links", dist)
        run(*install, *constraints, "amplifier[anthropic,files,durable]", folder=folder)

    return built_once(tmp_path_factory, "library", build)


def test_the_programs_of_the_librarys_documents_run_without_the_command(
    library: Path, tmp_path: Path
) -> None:
    for document in ("packages/agent/README.md", "docs/guides/library.md"):
        page = (_ROOT / document).read_text(encoding="utf-8")
        programs = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        assert programs
        for number, program in enumerate(programs):
            file = tmp_path / f"program_{number}.py"
            file.write_text(program, encoding="utf-8")
            run(library / "bin" / "python", file, folder=tmp_path)


@pytest.mark.parametrize(("package", "least"), [("amplifier", 100.0), ("amplifier_core", 97.0)])
def test_the_public_types_are_complete(library: Path, package: str, least: float) -> None:
    path = f"{library / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [_BIN / "pyright", "--verifytypes", package, "--ignoreexternal"],
        cwd=library,
        env={**os.environ, "PATH": path, "VIRTUAL_ENV": str(library)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    score = re.search(r"completeness score: ([\d.]+)%", done.stdout)
    assert score is not None, done.stdout + done.stderr
    assert float(score[1]) >= least, done.stdout
