"""Modules and bundles from zip files: rejected whole, or unpacked whole."""

from __future__ import annotations

import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from amplifier_foundation.sources import (
    DriftError,
    FetchError,
    Limits,
    Lock,
    RejectedArchiveError,
    SourceResolver,
    UnpinnedError,
)
from amplifier_foundation.sources import archive as archive_of_sources
from amplifier_foundation.sources.archive import fetch_archive
from amplifier_foundation.sources.fetch import Watch
from amplifier_foundation.sources.fetched import bare_hash
from amplifier_foundation.sources.uri import parse_source

Resolvers = Callable[..., SourceResolver]
Archive = Callable[..., str]
CODE = "amplifier_module_tool_echo/__init__.py"


def special(name: str, kind: int) -> zipfile.ZipInfo:
    """Return an entry whose mode says that it is no plain file."""
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (kind | 0o777) << 16
    return entry


@pytest.mark.attack("U3")
@pytest.mark.parametrize(
    "entries",
    [
        [("../evil", "x")],
        [("a/../../evil", "x")],
        [("/evil", "x")],
        [("C:/evil", "x")],
        [("..\\evil", "x")],
        [("a//b", "x")],
        [("./a", "x")],
        [("a\nb", "x")],
        [(special("link", stat.S_IFLNK), "/etc/passwd")],
        [(special("pipe", stat.S_IFIFO), "")],
        [("A.py", "x"), ("a.py", "y")],
        [("src/a.py", "x"), ("SRC/b.py", "y")],
        [("caf\u00e9", "x"), ("cafe\u0301", "y")],
        [("a", "x"), ("a/b", "y")],
        [("a/b", "y"), ("a", "x")],
        [("a/", ""), ("a", "x")],
        [("a/", ""), ("A/b", "x")],
        [("a\u202eb", "x")],
        [("n" * 256, "x")],
        [("d/" * 50 + "x", "x")],
        [("part/" * 300, "")],
        [(".GIT/config", "x")],
        [("\uff0egit/config", "x")],
        [("__pycache__./x.pyc", "x")],
        [(special("folder", stat.S_IFDIR), "x")],
        [(special("folder/", stat.S_IFREG), "x")],
        [(special("device", stat.S_IFCHR), "")],
        [(special("socket", stat.S_IFSOCK), "")],
        [("zeros", "0" * 50_000_000)],
    ],
    ids=lambda entries: repr(entries)[:40],
)
def test_an_archive_with_one_bad_entry_is_rejected_whole(
    entries: list[tuple[str | zipfile.ZipInfo, str]],
    archive: Archive,
    resolver_with: Resolvers,
    home: Path,
    tmp_path: Path,
    module_code: str,
) -> None:
    uri = archive([(CODE, module_code), *entries])
    before = sorted(tmp_path.iterdir())

    with pytest.raises(RejectedArchiveError):
        resolver_with().pin("tool-echo", uri)

    assert list((home / "cache").iterdir()) == []
    assert sorted(tmp_path.iterdir()) == sorted([*before, home])


@pytest.mark.attack("U3")
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_one_name_twice_is_rejected_whole(
    archive: Archive, resolver_with: Resolvers, home: Path, module_code: str
) -> None:
    uri = archive([(CODE, module_code), (CODE, "evil = 1\n")])

    with pytest.raises(RejectedArchiveError, match="twice"):
        resolver_with().pin("tool-echo", uri)

    assert list((home / "cache").iterdir()) == []


@pytest.mark.attack("U3")
def test_a_bomb_of_ten_thousand_to_one_is_rejected_before_it_grows(
    tmp_path: Path, resolver_with: Resolvers, home: Path
) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as opened:
        opened.writestr("bomb", bytes(20_000_000))
        assert opened.infolist()[0].file_size > 10_000 * opened.infolist()[0].compress_size

    with pytest.raises(RejectedArchiveError, match="200 times its size"):
        resolver_with().pin("tool-echo", f"zip+file://{path}")

    assert list((home / "cache").iterdir()) == []


@pytest.mark.attack("U3")
def test_an_archive_that_lies_about_a_size_is_rejected(
    tmp_path: Path, resolver_with: Resolvers, archive: Archive, home: Path
) -> None:
    uri = archive([("big", "ab" * 500_000)])
    path = tmp_path / "a.zip"
    told = (1_000_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(told, (10).to_bytes(4, "little")))

    with pytest.raises(RejectedArchiveError, match="broken"):
        resolver_with().pin("tool-echo", uri)

    assert list((home / "cache").iterdir()) == []


@pytest.mark.attack("review H2")
@pytest.mark.parametrize("flag", [0x1, 0x20, 0x40, 0x2000])
def test_an_archive_with_an_entry_that_cannot_be_read_is_rejected(
    tmp_path: Path, resolver_with: Resolvers, archive: Archive, home: Path, flag: int
) -> None:
    uri = archive([("entry", "content")])
    path = tmp_path / "a.zip"
    packed = bytearray(path.read_bytes())
    place = packed.index(b"PK\x01\x02") + 8
    packed[place : place + 2] = flag.to_bytes(2, "little")
    path.write_bytes(bytes(packed))

    with pytest.raises(RejectedArchiveError, match="encrypted"):
        resolver_with().pin("tool-echo", uri)

    assert list((home / "cache").iterdir()) == []


@pytest.mark.attack("review H2")
def test_an_archive_with_a_wrong_sum_is_rejected(
    tmp_path: Path, resolver_with: Resolvers, home: Path, module_code: str
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as opened:
        opened.writestr(CODE, module_code)
    path.write_bytes(path.read_bytes().replace(b"Says it again", b"Pays it again"))

    with pytest.raises(RejectedArchiveError, match="broken"):
        resolver_with().pin("tool-echo", f"zip+file://{path}")

    assert list((home / "cache").iterdir()) == []


@pytest.mark.attack("review H2")
def test_the_directory_of_an_archive_is_not_read_when_it_is_too_large(
    tmp_path: Path, resolver_with: Resolvers
) -> None:
    """Every entry of a directory takes memory, before anybody can count them."""
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as opened:
        entry = zipfile.ZipInfo("name")
        opened.writestr(entry, "")
        opened.filelist.extend([entry] * 30_000)

    with pytest.raises(RejectedArchiveError, match="directory has more than 1,048,576 bytes"):
        resolver_with(limits=Limits(files=100)).pin("tool-echo", f"zip+file://{path}")


@pytest.mark.attack("review H2")
def test_set_id_bits_in_an_archive_reach_no_file(
    archive: Archive, resolver_with: Resolvers, module_code: str
) -> None:
    entry = zipfile.ZipInfo("program")
    entry.create_system = 3
    entry.external_attr = (stat.S_IFREG | stat.S_ISUID | stat.S_ISGID | 0o777) << 16
    uri = archive([(CODE, module_code), (entry, "#!/bin/sh\n")])
    resolver = resolver_with()
    resolver.pin("tool-echo", uri)

    path = resolver.resolve("tool-echo", uri).path

    assert stat.S_IMODE((path / "program").stat().st_mode) == 0o444


@pytest.mark.attack("review H2")
def test_of_an_archive_that_is_not_what_is_pinned_nothing_is_written(
    archive: Archive, tmp_path: Path, module_code: str
) -> None:
    source = parse_source(archive([(CODE, module_code), ("a/__pycache__/x", "x"), (".git", "x")]))
    for folder in ("unpinned", "pinned", "other"):
        (tmp_path / folder).mkdir()

    assert fetch_archive(source, tmp_path / "unpinned", Watch("x", Limits(), None)) is None
    sha256 = bare_hash(tmp_path / "unpinned" / "tree")

    assert fetch_archive(source, tmp_path / "pinned", Watch("x", Limits(), None), sha256) == sha256
    assert bare_hash(tmp_path / "pinned" / "tree") == sha256
    assert fetch_archive(source, tmp_path / "other", Watch("x", Limits(), None), "0") == sha256
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.attack("review H2")
def test_a_name_that_passed_every_check_still_cannot_leave_the_tree(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of names is one wall, the folder they are opened beneath is another."""

    def nothing_is_wrong(name: str) -> None:
        """Say that any name is harmless."""

    monkeypatch.setattr(archive_of_sources, "name_fault", nothing_is_wrong)
    (tmp_path / "workspace").mkdir()
    source = parse_source(archive([("a.py", "x"), ("../planted", "x")]))

    with pytest.raises(RejectedArchiveError, match="leads out of the folder"):
        fetch_archive(source, tmp_path / "workspace", Watch("x", Limits(), None))

    assert not (tmp_path / "workspace" / "planted").exists()


@pytest.mark.attack("U3")
@pytest.mark.parametrize("limits", [Limits(files=1), Limits(bytes=1000)])
def test_an_archive_larger_than_the_limits_is_rejected(
    archive: Archive, resolver_with: Resolvers, limits: Limits
) -> None:
    uri = archive([("a", "x" * 1000), ("b", "y")])

    with pytest.raises(RejectedArchiveError, match="more than"):
        resolver_with(limits=limits).pin("tool-echo", uri)


def test_a_file_that_is_no_archive_is_rejected(tmp_path: Path, resolver_with: Resolvers) -> None:
    (tmp_path / "x.zip").write_text("no archive", encoding="utf-8")

    with pytest.raises(RejectedArchiveError, match="broken"):
        resolver_with().pin("tool-echo", f"zip+file://{tmp_path}/x.zip")
    with pytest.raises(FetchError, match="cannot be read"):
        resolver_with().pin("tool-echo", f"zip+file://{tmp_path}/missing.zip")


def test_bytecode_in_an_archive_does_not_reach_the_cache(
    archive: Archive, resolver_with: Resolvers, module_code: str
) -> None:
    bytecode = "amplifier_module_tool_echo/__pycache__/__init__.cpython-311.pyc"
    uri = archive([(CODE, module_code), (bytecode, "planted"), (".git/config", "x")])
    resolver = resolver_with()
    resolver.pin("tool-echo", uri)

    path = resolver.resolve("tool-echo", uri).path

    assert (path / CODE).is_file()
    assert not (path / bytecode).exists()
    assert not (path / ".git").exists()


class _Site(BaseHTTPRequestHandler):
    """Serves one archive, and redirections to it and away from it."""

    content = b""
    away = "http://localhost.example/x.zip"

    def do_GET(self) -> None:
        places = {"/moved.zip": "/x.zip", "/away.zip": self.away}
        if self.path in places:
            self.send_response(302)
            self.send_header("Location", places[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/x.zip":
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.content)))
            self.end_headers()
            self.wfile.write(self.content)
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path: Path, archive: Archive, module_code: str) -> Iterator[str]:
    """The address of a server on this machine that serves `x.zip` with the module in `x/`."""
    archive([(f"x/{CODE}", module_code), ("x/bundle.md", "# A bundle\n")])
    _Site.content = (tmp_path / "a.zip").read_bytes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_archive_is_fetched_over_http_and_pinned_by_its_content(
    site: str, resolver_with: Resolvers, locked: Callable[..., None], tmp_path: Path
) -> None:
    uri = f"zip+{site}/moved.zip#subdirectory=x"
    with pytest.raises(UnpinnedError):
        resolver_with().resolve("tool-echo", uri)
    locked("tool-echo", uri)

    located = resolver_with().resolve("tool-echo", uri)

    assert located.path.name == "x"
    assert (located.path / CODE).is_file()


def test_an_archive_that_changed_at_its_address_is_refused(
    site: str, project: Path, locked: Callable[..., None], tmp_path: Path, archive: Archive
) -> None:
    uri = f"zip+{site}/x.zip#subdirectory=x"
    locked("tool-echo", uri)
    archive([(f"x/{CODE}", "other = 1\n")])
    _Site.content = (tmp_path / "a.zip").read_bytes()
    lock = Lock.read(project / "amplifier.lock")

    with pytest.raises(DriftError):
        SourceResolver(tmp_path / "n", base=project, lock=lock).resolve("tool-echo", uri)


@pytest.mark.attack("U3")
@pytest.mark.parametrize(
    ("path", "why"), [("away.zip", "not https"), ("missing.zip", "404"), ("x.zip", "larger than")]
)
def test_a_download_that_leads_away_or_fails_is_no_archive(
    site: str, resolver_with: Resolvers, home: Path, path: str, why: str
) -> None:
    with pytest.raises(FetchError, match=why):
        resolver_with(limits=Limits(bytes=100)).pin("tool-echo", f"zip+{site}/{path}")

    assert list((home / "cache").iterdir()) == []
