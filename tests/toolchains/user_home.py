"""A user's home folder with installations of Python, Node.js and others in it.

The interpreters are the machine's own, hard-linked or copied to where an installer puts them. What
a machine may not have (rustup, Go, conda, pyenv itself) is a small script at the same place that
fails unless the folders around it are as the real program needs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SECRET = "sk-in-the-home-folder-4711"

# `EXTERNALLY-MANAGED` is Debian's: its own Python has the packages of the system.
_LEFT_OUT = (
    "EXTERNALLY-MANAGED",
    "__pycache__",
    "config-*",
    "idlelib",
    "site-packages",
    "test",
    "tkinter",
    "turtledemo",
)


class UserHome:
    """The home folder, and the environment that the user's shell has after its start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {
            "AMPLIFIER_HOME": str(folder / ".amplifier"),
            "HOME": str(folder),
        }
        self._path: list[str] = []
        for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".npmrc", ".pypirc"):
            write(folder / name, SECRET)
        write(folder / ".cargo" / "credentials.toml", SECRET)

    def prepend(self, folder: Path) -> None:
        """Put a folder before all others of PATH."""
        self._path.insert(0, str(folder))
        self.environment["PATH"] = self.path

    @property
    def path(self) -> str:
        """PATH, which ends with the folders of the system."""
        return ":".join([*self._path, SYSTEM])

    def run(self, *command: str | Path, cwd: Path) -> str:
        """Run a program as the user does, outside of any sandbox."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env={"PATH": self.path, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def write(path: Path, text: str, *, is_program: bool = False) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if is_program:
        path.chmod(0o755)
    return path


def put(source: str | Path, target: str | Path) -> str:
    """Make `target` the same file as `source`: a hard link, or a copy where that is refused."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return str(target)


def install_python(prefix: Path) -> Path:
    """Install the interpreter of these tests at `prefix`, without packages; return its program."""
    name = f"python{VERSION}"
    (prefix / "bin").mkdir(parents=True)
    _put_interpreter(prefix, name)
    for link in ("python", "python3"):
        (prefix / "bin" / link).symlink_to(name)
    shutil.copytree(
        sysconfig.get_path("stdlib"),
        prefix / "lib" / name,
        symlinks=True,
        ignore=shutil.ignore_patterns(*_LEFT_OUT),
        copy_function=put,
    )
    return prefix / "bin" / "python3"


def _put_interpreter(prefix: Path, name: str) -> None:
    """Put the program at `prefix`, and the library that it may consist of."""
    program = Path(os.path.realpath(sys.executable))
    folder = sysconfig.get_config_var("LIBDIR")
    named = os.fsencode(folder) + b"\0"
    content = program.read_bytes()
    # An installer builds it with the path of its library, which is here relative to the program.
    # Below /usr every program finds it.
    found = b"$ORIGIN/../lib"
    if folder.startswith("/usr") or named not in content or len(named) <= len(found):
        put(program, prefix / "bin" / name)
        return
    (prefix / "bin" / name).write_bytes(content.replace(named, found.ljust(len(named), b"\0")))
    (prefix / "bin" / name).chmod(0o755)
    (prefix / "lib").mkdir()
    for library in Path(folder).glob("libpython*"):
        put(library, prefix / "lib" / library.name)


def install_node(prefix: Path) -> None:
    """Install the machine's Node.js and npm at `prefix`, as its makers' archive has them."""
    node = shutil.which("node")
    npm = shutil.which("npm")
    assert node is not None, "these tests need Node.js"
    assert npm is not None, "these tests need npm"
    (prefix / "bin").mkdir(parents=True)
    put(os.path.realpath(node), prefix / "bin" / "node")
    package = Path(os.path.realpath(npm)).parents[1]
    shutil.copytree(package, prefix / "lib" / "node_modules" / "npm", copy_function=put)
    (prefix / "bin" / "npm").symlink_to("../lib/node_modules/npm/bin/npm-cli.js")


def install_rust(home: UserHome) -> None:
    """Put rustup's programs on PATH, with the machine's toolchain or with a script in its place."""
    programs = home.folder / ".cargo" / "bin"
    programs.mkdir(parents=True)
    home.prepend(programs)
    rustup = shutil.which("rustup")
    if rustup is not None:
        toolchains = os.environ.get("RUSTUP_HOME") or str(Path("~/.rustup").expanduser())
        home.environment["RUSTUP_HOME"] = toolchains
        put(os.path.realpath(rustup), programs / "rustup")
        for name in ("cargo", "rustc", "rustdoc"):
            (programs / name).symlink_to("rustup")
        return
    chosen = '"${RUSTUP_HOME:-$HOME/.rustup}/toolchains/stable'
    write(programs / "rustup", f'#!/bin/sh\nexec {chosen}/bin/${{0##*/}}" "$@"\n', is_program=True)
    (programs / "cargo").symlink_to("rustup")
    toolchain = home.folder / ".rustup" / "toolchains" / "stable"
    write(toolchain / "lib" / "rustlib" / "components", "std\n")
    _put_script("cargo", toolchain / "bin")


def install_go(home: UserHome) -> None:
    """Put Go on PATH: the machine's, or an installation whose program is a script."""
    found = shutil.which("go")
    if found is not None:
        home.prepend(Path(os.path.realpath(found)).parent)
        return
    root = home.folder / "sdk" / "go1.99"
    _put_script("go", root / "bin")
    write(root / "pkg" / "tool" / "compile", "#!/bin/sh\n", is_program=True)
    write(root / "src" / "testing" / "testing.go", "package testing\n")
    write(root / "VERSION", "go1.99\n")
    home.prepend(root / "bin")


def _put_script(name: str, folder: Path) -> None:
    text = (Path(__file__).parent / "scripts" / f"{name}.py").read_text("utf-8")
    write(folder / name, text, is_program=True)


PYENV_SHIM = """#!/bin/sh
set -e
export PYENV_ROOT="{root}"
exec "$PYENV_ROOT/libexec/pyenv" exec "${{0##*/}}" "$@"
"""
PYENV = """#!/bin/sh
set -e
shift
name="$1"
shift
exec "$PYENV_ROOT/versions/${PYENV_VERSION:-$(cat "$PYENV_ROOT/version")}/bin/$name" "$@"
"""
