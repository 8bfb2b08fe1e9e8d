"""Another amplifier-core on the index: ours stays, or the next start refuses and names the repair.

pip and uv install whatever a new package asks for, also over the exact pins of packages that are
installed already. Here they choose from a folder that offers our wheels beside an amplifier-core
2.0.2 and 2.0.3 of another project.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from end_to_end.built_once import built_once

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
_OURS = ("core", "sandbox", "kit", "journal", "foundation", "cli")
_FOREIGN = ("2.0.2", "2.0.3")
_SECONDS = 600
# The published modules that the tests install, and what each requires of the kernel.
_MODULES = {"tool-old": ">=1.5.3", "tool-exact": "==2.0.2", "tool-new": ">=2.0.3"}

_PLAIN: tuple[str, ...] = ()
_EAGER = ("--upgrade", "--upgrade-strategy", "eager")
_FORCED = ("--force-reinstall",)


class Environment(NamedTuple):
    """A virtual environment with our command, and the folder that stands for an index."""

    folder: Path
    wheels: Path

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / "bin" / "python"

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `pip install` with the folder as the only index."""
        return self._run([self.python, "-m", "pip", "install", "-q", *arguments])

    def uv(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `uv pip install` with the folder as the only index."""
        uv = Path(sys.executable).with_name("uv")
        index = ("--no-index", "--find-links", self.wheels)
        return self._run([uv, "pip", "install", "--python", self.python, *index, *arguments])

    def start(self) -> subprocess.CompletedProcess[str]:
        """Start the command."""
        return self._run([self.python, "-m", "amplifier_cli", "doctor"])

    def type_in(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command that was shown, in a shell."""
        return self._run(["bash", "-c", command])

    def kernel(self) -> str:
        """Return the version of the kernel that is imported."""
        shown = "import amplifier_core; print(amplifier_core.__version__)"
        return self._run([self.python, "-c", shown]).stdout.strip()

    def constraints(self) -> str:
        """Return the path of the constraints that our foundation ships."""
        where = "from amplifier_foundation.installation import CONSTRAINTS; print(CONSTRAINTS)"
        return self._run([self.python, "-c", where]).stdout.strip()

    def _run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        environ = {
            **os.environ,
            "HOME": str(self.folder / "home"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull,
        }
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels: ours, what they depend on, two foreign kernels, published modules."""
    return built_once(tmp_path_factory, "index", _fill_index)


def _fill_index(folder: Path) -> None:
    sources = [str(_ROOT / "packages" / name) for name in _OURS]
    pip = [sys.executable, "-m", "pip"]
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), *sources]
    subprocess.run(build, check=True, timeout=_SECONDS)
    _leave_out_modules(next(folder.glob("amplifier_cli-*.whl")))
    ours = [str(wheel) for wheel in folder.glob("*.whl")]
    constraints = ["-c", str(_ROOT / "constraints.txt")]
    fetch = [*pip, "download", "-q", "-d", str(folder), *constraints, *ours, "pip"]
    subprocess.run(fetch, check=True, timeout=_SECONDS)
    for version in _FOREIGN:
        code = f'__version__ = "{version}"\n'
        _write_wheel(folder, "amplifier_core", version, code)
    for module_id, required in _MODULES.items():
        name = f"amplifier_module_{module_id.replace('-', '_')}"
        _write_wheel(folder, name, "1.0.0", "", requires=f"amplifier-core{required}")


@pytest.fixture(scope="module")
def installed(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment into which `pip install amplifier-cli` has put our command."""

    def build(folder: Path) -> None:
        done = _new_environment(folder, index).pip("amplifier-cli")
        assert done.returncode == 0, done.stderr

    return Environment(built_once(tmp_path_factory, "installed", build), index)


@pytest.fixture
def environment(installed: Environment, tmp_path: Path) -> Environment:
    """A copy of that environment, which a test may spoil."""
    shutil.copytree(installed.folder, tmp_path / "venv", symlinks=True)
    return Environment(tmp_path / "venv", installed.wheels)


def _new_environment(folder: Path, index: Path) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=_SECONDS)
    return Environment(folder, index)


def _leave_out_modules(wheel: Path) -> None:
    """Let the command do without its modules, so that a copy of its environment is small."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            kept = content
            if name.endswith(".dist-info/METADATA"):
                left_out = (b"Requires-Dist: amplifier-module-", b"Requires-Dist: amplifier-conf")
                lines = content.splitlines(keepends=True)
                kept = b"".join(line for line in lines if not line.startswith(left_out))
            archive.writestr(name, kept)


def _write_wheel(folder: Path, name: str, version: str, code: str, requires: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    if requires:
        metadata += f"Requires-Dist: {requires}\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {f"{name}/__init__.py": code, f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel}
    record = "".join(f"{each},,\n" for each in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for each, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(each, text)


def _our_kernel() -> str:
    lines = (_ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("amplifier-core==")).partition("==")[2]


def _assert_ours_and_starting(environment: Environment) -> None:
    assert environment.kernel() == _our_kernel()
    started = environment.start()
    assert "as pinned" in started.stdout, started.stderr


def _assert_refused_until_repaired(environment: Environment, found: str) -> None:
    assert environment.kernel() == found
    refused = environment.start()
    assert refused.returncode == 1
    assert refused.stdout == ""
    what, why, fix = refused.stderr.splitlines()
    assert what == (
        f"error  The installed amplifier-core is not the kernel of this product: {found}."
    )
    assert why.startswith("why    ")
    assert _our_kernel() in why
    command = fix.removeprefix("next   ")
    repaired = environment.type_in(command.replace("FOLDER", str(environment.wheels)))
    assert repaired.returncode == 0, repaired.stderr
    _assert_ours_and_starting(environment)


@pytest.mark.parametrize("module", ["tool-old", "tool-exact"])
def test_pip_and_uv_keep_our_kernel_for_a_floor_that_it_satisfies(
    environment: Environment, module: str
) -> None:
    for install in (environment.pip, environment.uv):
        done = install(f"amplifier-module-{module}")

        assert done.returncode == 0, done.stderr
        _assert_ours_and_starting(environment)


@pytest.mark.parametrize(
    ("options", "module"),
    [(_PLAIN, "tool-new"), (_EAGER, "tool-old"), (_FORCED, "tool-old")],
    ids=["higher floor", "eager upgrade", "forced"],
)
def test_after_pip_replaced_the_kernel_the_next_start_refuses_and_the_repair_works(
    environment: Environment, options: tuple[str, ...], module: str
) -> None:
    done = environment.pip(*options, f"amplifier-module-{module}")

    assert done.returncode == 0, done.stderr
    _assert_refused_until_repaired(environment, "2.0.3")


@pytest.mark.parametrize(
    ("options", "module"),
    [(_PLAIN, "tool-new"), (("--upgrade",), "tool-old"), (("--reinstall",), "tool-old")],
    ids=["higher floor", "upgrade", "forced"],
)
def test_after_uv_replaced_the_kernel_the_next_start_refuses_and_the_repair_works(
    environment: Environment, options: tuple[str, ...], module: str
) -> None:
    done = environment.uv(*options, f"amplifier-module-{module}")

    assert done.returncode == 0, done.stderr
    _assert_refused_until_repaired(environment, "2.0.3")


@pytest.mark.parametrize(
    ("options", "module", "possible"),
    [(_PLAIN, "tool-new", False), (_EAGER, "tool-old", True), (_FORCED, "tool-old", True)],
    ids=["higher floor", "eager upgrade", "forced"],
)
def test_with_our_constraints_pip_never_replaces_the_kernel(
    environment: Environment, options: tuple[str, ...], module: str, possible: bool
) -> None:
    constrained = (*options, "-c", environment.constraints(), f"amplifier-module-{module}")
    done = environment.pip(*constrained)

    assert (done.returncode == 0) is possible, done.stderr
    _assert_ours_and_starting(environment)


@pytest.mark.parametrize(
    ("options", "module", "possible"),
    [(_PLAIN, "tool-new", False), (("--upgrade",), "tool-old", True)],
    ids=["higher floor", "upgrade"],
)
def test_with_our_constraints_uv_never_replaces_the_kernel(
    environment: Environment, options: tuple[str, ...], module: str, possible: bool
) -> None:
    constrained = (*options, "-c", environment.constraints(), f"amplifier-module-{module}")
    done = environment.uv(*constrained)

    assert (done.returncode == 0) is possible, done.stderr
    _assert_ours_and_starting(environment)


def test_installing_our_command_replaces_the_kernel_that_a_module_brought_before(
    index: Path, tmp_path: Path
) -> None:
    bare = _new_environment(tmp_path / "venv", index)

    assert bare.pip("amplifier-module-tool-old").returncode == 0
    assert bare.kernel() == "2.0.3"
    assert bare.pip("amplifier-cli").returncode == 0
    _assert_ours_and_starting(bare)


def test_the_command_refuses_when_the_kernel_was_removed(environment: Environment) -> None:
    environment.type_in(f"{environment.python} -m pip uninstall -qy amplifier-core")

    refused = environment.start()

    assert refused.returncode == 1
    assert "No module named 'amplifier_core'" in refused.stderr
    assert len(refused.stderr.splitlines()) == 3


def test_the_command_refuses_a_foundation_of_another_project(
    environment: Environment, tmp_path: Path
) -> None:
    foreign = tmp_path / "wheels"
    foreign.mkdir()
    _write_wheel(foreign, "amplifier_foundation", "9.0.0", '__version__ = "9.0.0"\n')

    environment.pip("--no-deps", *map(str, foreign.iterdir()))
    refused = environment.start()

    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 3
    assert "Traceback" not in refused.stderr
