"""`make new-module` makes a module that is in every list, and whose tests pass."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "node_modules")
_GATES = ("check_versions.py", "describe_modules.py")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the repository, with an environment that can install more packages."""
    folder = tmp_path / "copy"
    shutil.copytree(_ROOT, folder, ignore=_LEFT_OUT)
    venv.create(folder / ".venv", symlinks=True, with_pip=False)
    packages = sysconfig.get_paths(vars={"base": str(folder / ".venv")})["purelib"]
    # All packages of this environment, and those that are installed from it in editable form.
    ours = f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"
    Path(packages, "ours.pth").write_text(ours, encoding="utf-8")
    command = folder / ".venv" / "bin" / "amplifier"
    command.write_text(
        f"#!{folder / '.venv/bin/python'}\nfrom amplifier_cli.entry import main\nmain()\n",
        encoding="utf-8",
    )
    command.chmod(0o755)
    return folder


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the copy's own Python in the copy."""
    python = str(copy / ".venv" / "bin" / "python")
    return subprocess.run(
        [python, *arguments], cwd=copy, check=False, capture_output=True, text=True
    )


@pytest.mark.slow
def test_one_command_makes_a_module_that_passes_its_tests_and_is_in_every_list(copy: Path) -> None:
    made = run(copy, "tools/new_module.py", "tool-clock")

    assert made.returncode == 0, made.stderr
    assert "next: make test M=tool-clock" in made.stdout
    for gate in _GATES:
        checked = run(copy, f"tools/{gate}")
        assert checked.returncode == 0, checked.stdout
    assert "tool-clock" in (copy / "modules" / "README.md").read_text(encoding="utf-8")
    assert "modules/tool-clock" in (copy / "requirements-dev.txt").read_text(encoding="utf-8")
    tests = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "modules/tool-clock/tests")
    assert tests.returncode == 0, tests.stdout


def test_a_name_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "tools/new_module.py"],
        cwd=_ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert done.stdout == "usage: new_module.py tool-clock\n"
