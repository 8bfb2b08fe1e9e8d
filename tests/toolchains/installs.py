"""What a developer installs in each of the layouts, and how the project uses it afterwards."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pip

from toolchains.layouts import Layout
from toolchains.registry import MODULE, Registry
from toolchains.user_home import write

# Two small packages without dependencies and without code to compile.
_OF_PYTHON = "iniconfig"
_OF_NODE = "is-number"


@dataclass(frozen=True)
class Install:
    """An installation, an edit that needs what was installed, and the proof that it works."""

    command: str
    file: str
    # Replaced by `new`; empty if the file is new.
    old: str
    new: str
    # Run without a network after the edit; prints `sign`.
    use: str
    sign: str
    # What else the installation writes to.
    write: tuple[str, ...] = ()


Prepare = Callable[[Layout, Registry], Install]


def with_new_environment(layout: Layout, registry: Registry) -> Install:
    """The system's Python installs nothing for all users; it makes an environment first."""
    make = "test -d .venv || /usr/bin/python3 -m venv .venv; "
    return _python(make + ".venv/bin/pip install", ".venv/bin/python")


def with_activated_venv(layout: Layout, registry: Registry) -> Install:
    _add_pip(layout.workspace / ".venv")
    return _python("pip install", "python")


def with_pyenv(layout: Layout, registry: Registry) -> Install:
    _add_pip(layout.workspace / ".venv")
    return _python(".venv/bin/python -m pip install", ".venv/bin/python")


def with_uv(layout: Layout, registry: Registry) -> Install:
    return _python("uv add", "uv run --offline python")


def with_conda(layout: Layout, registry: Registry) -> Install:
    """The environment is outside of the project, so that writing to it is asked about as well."""
    prefix = layout.home.environment["CONDA_PREFIX"]
    _add_pip(Path(prefix))
    install = _python("python -m pip install", "python")
    # pip would install to HOME if it could not write to the environment.
    where = f"python -c 'print(__import__(\"{_OF_PYTHON}\").__file__)' | grep {prefix}"
    return replace(install, use=f"{where} && {install.use}", write=(prefix,))


def with_npm(layout: Layout, registry: Registry) -> Install:
    return _node(f"npm install {_OF_NODE}", "twice.test.js", layout)


def with_pnpm(layout: Layout, registry: Registry) -> Install:
    return _node(f"pnpm --filter two add {_OF_NODE}", "packages/two/twice.test.js", layout)


def with_cargo(layout: Layout, registry: Registry) -> Install:
    """From a registry of the test: the machine may reach none of crates."""
    write(
        layout.home.folder / ".cargo" / "config.toml",
        f'[registries.local]\nindex = "sparse+http://{registry.place}/crates/"\n',
    )
    return Install(
        "cargo add -q --registry local numbers@1.0.0 && cargo fetch -q",
        "src/lib.rs",
        "assert_eq!(twice(3), 6);",
        "assert_eq!(twice(3), numbers::six());",
        layout.test_command,
        layout.sign,
    )


def with_go(layout: Layout, registry: Registry) -> Install:
    """From a registry of the test, which is in the settings that `go env -w` writes."""
    write(
        layout.home.folder / ".config" / "go" / "env",
        f"GOPROXY=http://user:password@{registry.place}/modules\nGOSUMDB=off\n",
    )
    return Install(
        f"go get {MODULE}@v1.0.0",
        "twice_test.go",
        'import "testing"\n\nfunc TestTwice(t *testing.T) {}\n',
        f'import (\n\t"testing"\n\n\t"{MODULE}"\n)\n\n'
        "func TestTwice(t *testing.T) {\n\tif numbers.Six() != 6 {\n\t\tt.Fail()\n\t}\n}\n",
        layout.test_command,
        layout.sign,
    )


def with_build_tool(layout: Layout, registry: Registry) -> Install:
    """A build tool for C that is distributed as a package of Python, as Meson and CMake are."""
    make = "test -d tools || /usr/bin/python3 -m venv tools; "
    rules = "rule compile\n  command = cached cc -o $out $in\nbuild twice: compile twice.c\n"
    return Install(
        f"{make}tools/bin/pip install ninja",
        "build.ninja",
        "",
        rules,
        "tools/bin/ninja && ./twice",
        layout.sign,
    )


def with_linter(layout: Layout, registry: Registry) -> Install:
    """A linter in an environment of the project; the hook runs the tests before the commit."""
    make = "test -d .venv || /usr/bin/python3 -m venv .venv; "
    return Install(
        f"{make}.venv/bin/pip install pyflakes",
        "twice.py",
        "2 * number",
        "number + number",
        ".venv/bin/python -m pyflakes twice.py && echo clean",
        "clean",
    )


def with_environment_of_service(layout: Layout, registry: Registry) -> Install:
    environment = "services/api/.venv"
    _add_pip(layout.workspace / environment)
    install = f"{environment}/bin/pip install {_OF_PYTHON}"
    file = "libraries/numbers_of_all.py"
    return Install(install, file, *_import_in_python(), layout.test_command, layout.sign)


INSTALLS: dict[str, Prepare] = {
    "system python": with_new_environment,
    "venv": with_activated_venv,
    "pyenv + venv": with_pyenv,
    "uv project": with_uv,
    "conda-like prefix": with_conda,
    "node via nvm": with_npm,
    "pnpm workspace": with_pnpm,
    "cargo": with_cargo,
    "go": with_go,
    "make + C": with_build_tool,
    "git hooks": with_linter,
    "monorepo subfolder": with_environment_of_service,
}

FROM_REGISTRY = ("cargo", "go")
"""Those that install from the registry of the test."""


def _python(install: str, python: str) -> Install:
    use = f"{python} -m unittest -v test_twice 2>&1"
    return Install(f"{install} {_OF_PYTHON}", "twice.py", *_import_in_python(), use, "OK")


def _import_in_python() -> tuple[str, str]:
    return "def twice", f"import {_OF_PYTHON}\n\nassert {_OF_PYTHON}.IniConfig\n\n\ndef twice"


def _node(command: str, file: str, layout: Layout) -> Install:
    old = "assert.equal(2 * 3, 6)"
    new = f"assert.ok(require('{_OF_NODE}')(2 * 3))"
    return Install(command, file, old, new, layout.test_command, layout.sign)


def _add_pip(environment: Path) -> None:
    """Put pip into an environment of the user; copied, which is faster than `ensurepip`."""
    # Debian's Python has another folder for packages where it is no virtual environment.
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    printed = subprocess.check_output([environment / "bin" / "python", "-c", ask], text=True)
    packages = Path(printed.strip())
    packages.mkdir(parents=True, exist_ok=True)
    shutil.copytree(Path(pip.__file__).parent, packages / "pip")
    start = f"#!{environment}/bin/python\nfrom pip._internal.cli.main import main\n"
    start += "raise SystemExit(main())\n"
    write(environment / "bin" / "pip", start, is_program=True)
