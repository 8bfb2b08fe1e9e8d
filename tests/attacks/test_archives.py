"""Archives and repositories that write where they must not, or stop whoever fetches them."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from attacks.machine import Machine

PACKAGE = "amplifier_module_tool_theirs/__init__.py"
CODE = "async def mount(coordinator, config=None): pass\n"
UNICODE_PATH = 0x7075
UTF8_NAME = 0x800


def use_source(machine: Machine, source: str) -> None:
    """Have the user name a module that comes from elsewhere."""
    entry = {"module": "tool-theirs", "source": source}
    machine.user_settings({"modules": {"tools": [entry]}})


def with_unicode_path(name: str, other: str) -> zipfile.ZipInfo:
    """Return an entry with a second name in the extra field for names in Unicode."""
    entry = zipfile.ZipInfo(name)
    data = struct.pack("<BL", 1, zlib.crc32(name.encode())) + other.encode()
    entry.extra = struct.pack("<HH", UNICODE_PATH, len(data)) + data
    return entry


def with_mode(name: str, mode: int) -> zipfile.ZipInfo:
    """Return an entry with a Unix mode."""
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = mode << 16
    return entry


def write_archive(path: Path, *entries: tuple[str | zipfile.ZipInfo, str]) -> str:
    """Write an archive with a module and these entries; return it as a source."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(PACKAGE, CODE)
        for entry, content in entries:
            archive.writestr(entry, content)
    return f"zip+file://{path}"


def files_below(folder: Path) -> set[str]:
    """Return all files that are below a folder."""
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def assert_refused(done: subprocess.CompletedProcess[str]) -> None:
    """Assert that a command refused in at most three lines that say why and what comes next."""
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.strip()]
    assert [line.split()[0] for line in said] == ["error", "why", "next"]


@pytest.mark.attack("review H2")
@pytest.mark.parametrize("way", ["relative", "absolute"])
def test_a_second_name_in_an_archive_writes_nothing_outside_of_its_tree(
    machine: Machine, tmp_path: Path, way: str
) -> None:
    """Python 3.12 and later write to the second name; for 3.11 it is the first that counts.

    What a file is called must not depend on who unpacks it, so no version accepts it.
    """
    planted = tmp_path / "planted.pth"
    cache = machine.home / "cache"
    depth = len(cache.parts) - len(tmp_path.parts) + 2
    other = str(planted) if way == "absolute" else "../" * depth + planted.name
    entry = with_unicode_path("package/data.txt", other)
    source = write_archive(tmp_path / "theirs.zip", (entry, "import os\n"))
    use_source(machine, source)

    done = machine.amplifier("module", "lock")

    assert not planted.exists()
    assert_refused(done)
    assert files_below(cache) == set()
    assert not (machine.project / "amplifier.lock").exists()


def _name_that_is_not_unicode(path: Path) -> None:
    entry = zipfile.ZipInfo("nam\u00e9")
    write_archive(path, (entry, "x"))
    packed = path.read_bytes()
    assert packed.count("nam\u00e9".encode()) == 2
    path.write_bytes(packed.replace("nam\u00e9".encode(), b"nam\xff\xfe"))


def _files_that_overlap(path: Path) -> None:
    """Make one file whose content is another file of the archive, with its header."""
    inner = path.with_suffix(".inner")
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("inner.py", "x = 1\n")
        header = inner_header(archive)
    packed = inner.read_bytes()
    record = packed[: header.header_offset + 30 + len("inner.py") + header.compress_size]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(PACKAGE, CODE)
        archive.writestr("outer.bin", record)
        outer = archive.getinfo("outer.bin")
        header.header_offset = outer.header_offset + 30 + len("outer.bin")
        archive.filelist.append(header)
        archive.NameToInfo["inner.py"] = header
    inner.unlink()


def inner_header(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return the only entry of an archive."""
    (entry,) = archive.infolist()
    return entry


def _deep(path: Path) -> None:
    write_archive(path, ("d/" * 300 + "x.py", "x"))


def _long(path: Path) -> None:
    write_archive(path, ("n" * 300 + ".py", "x"))


def _bytecode_by_another_spelling(path: Path) -> None:
    write_archive(path, ("amplifier_module_tool_theirs/__PyCache__/x.pyc", "x"))


def _name_that_shows_something_else(path: Path) -> None:
    write_archive(path, ("safe\u202eyp.exe", "x"))


def _folder_that_is_a_file(path: Path) -> None:
    write_archive(path, (with_mode("folder", stat.S_IFDIR | 0o755), "x"))


def _memory(path: Path) -> None:
    """Make a file that asks for almost 4 GiB of memory to read a few bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(PACKAGE, CODE)
        archive.writestr("data", "x" * 100)
        place = archive.getinfo("data").header_offset + 30 + len("data")
    packed = bytearray(path.read_bytes())
    # Version and size of the properties, then one byte, then the size of the dictionary.
    packed[place + 5 : place + 9] = struct.pack("<L", 0xFFFFFFF0)
    path.write_bytes(bytes(packed))


HOSTILE: dict[str, Callable[[Path], None]] = {
    "name that is not Unicode": _name_that_is_not_unicode,
    "files that overlap": _files_that_overlap,
    "deep": _deep,
    "long": _long,
    "bytecode by another spelling": _bytecode_by_another_spelling,
    "name that shows something else": _name_that_shows_something_else,
    "folder that is a file": _folder_that_is_a_file,
    "memory": _memory,
}


@pytest.mark.slow
@pytest.mark.attack("review H2")
@pytest.mark.parametrize("kind", HOSTILE)
def test_an_archive_that_is_not_harmless_is_rejected_whole(
    machine: Machine, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "theirs.zip"
    HOSTILE[kind](path)
    use_source(machine, f"zip+file://{path}")

    done = machine.amplifier("module", "lock")

    assert_refused(done)
    assert files_below(machine.home / "cache") == set()


@pytest.mark.slow
@pytest.mark.attack("review H2")
def test_a_pipe_in_the_place_of_an_archive_is_not_waited_for(
    machine: Machine, tmp_path: Path
) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no pipes that are files")
    os.mkfifo(tmp_path / "theirs.zip")
    use_source(machine, f"zip+file://{tmp_path}/theirs.zip")

    done = machine.amplifier("module", "lock", timeout=60)

    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def write_repository(folder: Path, name: bytes) -> str:
    """Write a repository whose tree has a file of any name; return it as a source."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")

    def git(*arguments: str, given: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *identity, *arguments],
            input=given,
            cwd=folder,
            env=environment,
            capture_output=True,
            check=True,
            timeout=60,
        )
        return done.stdout.decode().strip()

    folder.mkdir()
    git("init", "--quiet", "--initial-branch=main")
    code = git("hash-object", "-w", "--stdin", given=CODE.encode())
    package = git("mktree", "-z", given=f"100644 blob {code}\t__init__.py\0".encode())
    entries = f"040000 tree {package}\tamplifier_module_tool_theirs\0".encode()
    *above, leaf = name.split(b"/")
    tree = git("mktree", "-z", given=f"100644 blob {code}\t".encode() + leaf + b"\0")
    for part in reversed(above):
        tree = git("mktree", "-z", given=f"040000 tree {tree}\t".encode() + part + b"\0")
    entries += f"040000 tree {tree}\tfolder\0".encode()
    root = git("mktree", "-z", given=entries)
    commit = git("commit-tree", "-m", "x", root)
    git("update-ref", "refs/heads/main", commit)
    return f"git+file://{folder}@main"


@pytest.mark.slow
@pytest.mark.attack("review H2")
@pytest.mark.parametrize(
    "name",
    [
        b"__PyCache__/x.pyc",
        b".git\xe2\x80\x8c/config",
        b"a\x1b[2Jb",
        b"c:evil",
        b"not\xffunicode",
        b"d/" * 100 + b"x",
    ],
)
def test_a_repository_is_held_to_the_names_that_an_archive_may_have(
    machine: Machine, tmp_path: Path, name: bytes
) -> None:
    use_source(machine, write_repository(tmp_path / "theirs", name))

    done = machine.amplifier("module", "lock")

    assert_refused(done)
    assert files_below(machine.home / "cache") == set()
