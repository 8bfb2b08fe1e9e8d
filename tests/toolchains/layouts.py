"""Twelve projects, each with its tools where a developer's machine has them.

Every one has tests that pass outside of a sandbox. What is not the real program is named in the
docstring of its builder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from npm_packages import npm_package
from toolchains.user_home import (
    PYENV,
    PYENV_SHIM,
    UserHome,
    install_go,
    install_node,
    install_python,
    install_rust,
    put,
    write,
)

PNPM = "9.15.9"


@dataclass(frozen=True)
class Layout:
    """A project on a user's machine."""

    home: UserHome
    # The folder that tools work in, and the one that the user is in.
    workspace: Path
    folder: Path
    # Runs the project's tests, from the workspace.
    test_command: str
    # Printed by the command if they have passed.
    sign: str


Build = Callable[[UserHome, Path], Layout]

_CODE = "def twice(number):\n    return 2 * number\n"
_TEST = """import unittest

from {module} import twice


class Twice(unittest.TestCase):
    def test_twice(self):
        self.assertEqual(twice(3), 6)
"""
_UNITTEST = "-m unittest -v test_twice"


def system_python(home: UserHome, project: Path) -> Layout:
    """The interpreter of the system, nothing installed."""
    _python_code(project)
    return Layout(home, project, project, f"/usr/bin/python3 {_UNITTEST} 2>&1", "OK")


def activated_venv(home: UserHome, project: Path) -> Layout:
    """An activated environment, made from an interpreter that is not on PATH."""
    _python_code(project)
    base = install_python(home.folder / "builds" / "python")
    _make_environment(home, base, project / ".venv")
    home.prepend(project / ".venv" / "bin")
    home.environment["VIRTUAL_ENV"] = str(project / ".venv")
    return Layout(home, project, project, f"python {_UNITTEST} 2>&1", "OK")


def pyenv_and_venv(home: UserHome, project: Path) -> Layout:
    """Python by pyenv, and an environment made from it; pyenv itself is two scripts."""
    _python_code(project)
    root = home.folder / ".pyenv"
    base = install_python(root / "versions" / "3.99.1")
    write(root / "version", "3.99.1\n")
    write(root / "libexec" / "pyenv", PYENV, is_program=True)
    for name in ("python", "python3"):
        write(root / "shims" / name, PYENV_SHIM.format(root=root), is_program=True)
    _make_environment(home, base, project / ".venv")
    home.prepend(root / "shims")
    command = f"python {_UNITTEST} 2>&1 && .venv/bin/python {_UNITTEST} 2>&1"
    return Layout(home, project, project, command, "OK")


def uv_project(home: UserHome, project: Path) -> Layout:
    """Uv, an interpreter that it keeps, and the project's environment made from that."""
    from uv import find_uv_bin  # noqa: PLC0415 - only where uv is needed

    _python_code(project)
    write(
        project / "pyproject.toml",
        '[project]\nname = "twice"\nversion = "1.0.0"\nrequires-python = ">=3.11"\n'
        "[tool.uv]\npackage = false\n",
    )
    programs = home.folder / ".local" / "bin"
    programs.mkdir(parents=True)
    put(find_uv_bin(), programs / "uv")
    base = install_python(home.folder / ".local" / "share" / "uv" / "python" / "cpython-3.99")
    home.prepend(programs)
    home.run("uv", "venv", "-q", "--offline", "--python", base, ".venv", cwd=project)
    return Layout(home, project, project, f"uv run --offline python {_UNITTEST} 2>&1", "OK")


def conda_environment(home: UserHome, project: Path) -> Layout:
    """An environment of the shape that conda makes, activated; conda itself is a script."""
    _python_code(project)
    root = home.folder / "miniconda3"
    write(root / "condabin" / "conda", "#!/bin/sh\nls ${0%/condabin/conda}/envs\n", is_program=True)
    environment = root / "envs" / "app"
    install_python(environment)
    for prefix in (root, environment):
        write(prefix / "conda-meta" / "history", "")
    home.prepend(root / "condabin")
    home.prepend(environment / "bin")
    home.environment |= {"CONDA_PREFIX": str(environment), "CONDA_DEFAULT_ENV": "app"}
    command = f"conda | grep app && python {_UNITTEST} 2>&1"
    return Layout(home, project, project, command, "OK")


def node_by_nvm(home: UserHome, project: Path) -> Layout:
    """Node.js and npm in a version of nvm."""
    _node_code(project)
    version = home.folder / ".nvm" / "versions" / "node" / "v20.99.0"
    install_node(version)
    home.prepend(version / "bin")
    home.environment["NVM_DIR"] = str(home.folder / ".nvm")
    # The machine may have another node, which must not be the one that runs.
    command = "node -p process.execPath | grep v20.99.0 && npm test 2>&1"
    return Layout(home, project, project, command, "# pass 1")


def pnpm_workspace(home: UserHome, project: Path) -> Layout:
    """Two packages of one workspace, Node.js of fnm and pnpm of its own installer."""
    write(project / "pnpm-workspace.yaml", "packages: ['packages/*']\n")
    write(project / "package.json", json.dumps({"name": "root", "private": True}))
    for name in ("one", "two"):
        _node_code(project / "packages" / name, name)
    version = home.folder / ".local" / "share" / "fnm" / "node-versions" / "v20" / "installation"
    install_node(version)
    # The shell's own link to a version, as `fnm env` makes one for each shell.
    shell = home.folder / ".local" / "state" / "fnm_multishells" / "1234_5678"
    shell.parent.mkdir(parents=True)
    shell.symlink_to(version)
    home.prepend(shell / "bin")
    own = home.folder / ".local" / "share" / "pnpm"
    package = npm_package("pnpm", PNPM)
    shutil.copytree(package, own / "global" / "node_modules" / "pnpm", copy_function=put)
    (own / "pnpm").symlink_to("global/node_modules/pnpm/bin/pnpm.cjs")
    home.prepend(own)
    return Layout(home, project, project, "pnpm -r test 2>&1", "packages/two test: # pass 1")


def cargo(home: UserHome, project: Path) -> Layout:
    """A crate, with the machine's rustup; where it has none, scripts of the same shape."""
    install_rust(home)
    write(project / "Cargo.toml", '[package]\nname = "twice"\nversion = "1.0.0"\n')
    write(
        project / "src" / "lib.rs",
        "pub fn twice(number: i64) -> i64 { 2 * number }\n"
        "#[test]\nfn doubles() { assert_eq!(twice(3), 6); }\n",
    )
    return Layout(home, project, project, "cargo test 2>&1", "test result: ok. 1 passed")


def go(home: UserHome, project: Path) -> Layout:
    """A module, with the machine's Go; where it has none, a script of the same shape."""
    install_go(home)
    write(project / "go.mod", "module example.org/twice\n\ngo 1.21\n")
    write(
        project / "twice_test.go",
        'package twice\n\nimport "testing"\n\nfunc TestTwice(t *testing.T) {}\n',
    )
    return Layout(home, project, project, "go test ./...", "ok  \texample.org/twice")


def make_and_c(home: UserHome, project: Path) -> Layout:
    """The system's compiler, started by make, with a compiler cache in front of it."""
    cache = '#!/bin/sh\nmkdir -p "$HOME/.cache/ccache"\nshift\nexec cc "$@"\n'
    write(home.folder / "bin" / "cached", cache, is_program=True)
    home.prepend(home.folder / "bin")
    write(project / "Makefile", "test: twice\n\t./twice\ntwice: twice.c\n\tcached cc -o $@ $<\n")
    write(
        project / "twice.c",
        '#include <stdio.h>\nint main(void) { return puts(2 * 3 == 6 ? "passed" : "no") < 0; }\n',
    )
    return Layout(home, project, project, "make -B test", "passed")


def git_hooks(home: UserHome, project: Path) -> Layout:
    """A repository whose hook runs the tests, with a tool that was installed for the user alone."""
    _python_code(project)
    environment = home.folder / ".local" / "share" / "pipx" / "venvs" / "check"
    base = install_python(home.folder / "builds" / "python")
    _make_environment(home, base, environment)
    check = f"#!{environment}/bin/python\nimport runpy, sys\nsys.argv = {_UNITTEST.split()[1:]}\n"
    check += "sys.path.insert(0, '')\nrunpy.run_module('unittest', run_name='__main__')\n"
    write(environment / "bin" / "check", check, is_program=True)
    programs = home.folder / ".local" / "bin"
    programs.mkdir(parents=True)
    (programs / "check").symlink_to(environment / "bin" / "check")
    home.prepend(programs)
    _make_repository(project)
    hook = "#!/bin/sh\nset -e\ngit status --short\ncheck\n"
    write(project / ".git" / "hooks" / "pre-commit", hook, is_program=True)
    return Layout(home, project, project, ".git/hooks/pre-commit 2>&1", "OK")


def monorepo_subfolder(home: UserHome, project: Path) -> Layout:
    """A service of a monorepo with an environment of its own, and code from beside it."""
    _make_repository(project)
    write(project / "libraries" / "numbers_of_all.py", _CODE)
    service = project / "services" / "api"
    write(service / "test_twice.py", _TEST.format(module="numbers_of_all"))
    base = install_python(home.folder / "builds" / "python")
    _make_environment(home, base, service / ".venv")
    command = f"cd services/api && PYTHONPATH=../../libraries .venv/bin/python {_UNITTEST} 2>&1"
    return Layout(home, project, service, command, "OK")


LAYOUTS: dict[str, Build] = {
    "system python": system_python,
    "venv": activated_venv,
    "pyenv + venv": pyenv_and_venv,
    "uv project": uv_project,
    "conda-like prefix": conda_environment,
    "node via nvm": node_by_nvm,
    "pnpm workspace": pnpm_workspace,
    "cargo": cargo,
    "go": go,
    "make + C": make_and_c,
    "git hooks": git_hooks,
    "monorepo subfolder": monorepo_subfolder,
}


def _python_code(project: Path) -> None:
    write(project / "twice.py", _CODE)
    write(project / "test_twice.py", _TEST.format(module="twice"))


def _node_code(folder: Path, name: str = "twice") -> None:
    scripts = {"test": "node --test --test-reporter=tap"}
    write(folder / "package.json", json.dumps({"name": name, "scripts": scripts}))
    write(
        folder / "twice.test.js",
        "const { test } = require('node:test');\nconst assert = require('node:assert');\n"
        "test('twice', () => assert.equal(2 * 3, 6));\n",
    )


def _make_environment(home: UserHome, base: Path, folder: Path) -> None:
    home.run(base, "-m", "venv", "--without-pip", folder, cwd=home.folder)


def _make_repository(project: Path) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True, timeout=60)
