"""Fetching a zip archive, and unpacking it only when every name and size in it is harmless."""

from __future__ import annotations

import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from http.client import HTTPException, HTTPMessage
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from amplifier_foundation.sources.errors import FetchError, RejectedArchiveError
from amplifier_foundation.sources.fetching import Watch
from amplifier_foundation.sources.uri import Source

__all__ = ["fetch_archive"]

_CHUNK = 1 << 16
_SILENCE_SECONDS = 30.0
# Below this, even a file of nothing but zeros is no bomb.
_SMALL = 1 << 20
_UNSOUND = re.compile(r"[\x00-\x1f\x7f\\:]")
_ENCRYPTED = 0x1
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def fetch_archive(source: Source, workspace: Path, watch: Watch) -> None:
    """Put the files of a zip archive into `workspace/tree`.

    Raises:
        FetchError: it cannot be had, or it takes too long or too much.
        RejectedArchiveError: something in it is not harmless; nothing of it was written.
    """
    parts = urlsplit(source.location)
    if parts.scheme == "file":
        archive = Path(unquote(parts.path))
    else:
        archive = workspace / "archive.zip"
        _download(source.location, archive, watch)
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _checked(opened, archive.stat().st_size, watch)
            _unpack(opened, members, workspace / "tree", watch)
    except OSError as error:
        raise FetchError(f"{watch.source} cannot be read.", why=f"{error}.") from error
    except _BROKEN as error:
        raise RejectedArchiveError(watch.source, f"a part that is broken: {error}") from error


class _SameSafety(HTTPRedirectHandler):
    """Follows a redirection only to where the source itself could have pointed."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        is_safe = newurl.startswith("https://") or (
            req.type == "http" and urlsplit(newurl).netloc == req.host
        )
        if not is_safe:
            raise URLError(f"it was redirected to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(address: str, archive: Path, watch: Watch) -> None:
    try:
        with (
            build_opener(_SameSafety).open(address, timeout=_SILENCE_SECONDS) as answer,
            archive.open("wb") as file,
        ):
            length = answer.headers.get("Content-Length") or ""
            total = int(length) if length.isdigit() else None
            size = 0
            while chunk := answer.read1(_CHUNK):
                size += len(chunk)
                watch.reached(size, total)
                file.write(chunk)
    except (OSError, HTTPException) as error:
        raise FetchError(f"{watch.source} could not be fetched.", why=f"{error}.") from error


def _checked(archive: zipfile.ZipFile, size: int, watch: Watch) -> list[zipfile.ZipInfo]:
    """Return the archive's files after looking at every name and every stated size."""
    members = archive.infolist()
    if len(members) > watch.limits.files:
        raise RejectedArchiveError(watch.source, f"more than {watch.limits.files:,} files")
    if sum(member.compress_size for member in members) > size:
        raise RejectedArchiveError(watch.source, "files that overlap")
    if sum(member.file_size for member in members) > watch.limits.bytes:
        raise RejectedArchiveError(watch.source, f"more than {watch.limits.bytes:,} bytes")
    for member in members:
        fault = _fault_of(member, watch.limits.ratio)
        if fault is not None:
            raise RejectedArchiveError(watch.source, f"{fault}: {member.orig_filename!r}")
    _check_collisions(members, watch)
    return [member for member in members if not member.is_dir()]


def _fault_of(member: zipfile.ZipInfo, ratio: int) -> str | None:
    name = member.orig_filename
    if name.startswith("/") or _UNSOUND.search(name):
        return "an absolute name, or one that no file should have"
    if any(part in ("", ".", "..") for part in name.removesuffix("/").split("/")):
        return "a name that leads elsewhere"
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a link or a special file"
    if member.flag_bits & _ENCRYPTED:
        return "an encrypted file"
    if member.file_size > max(_SMALL, ratio * member.compress_size):
        return f"a file that grows to more than {ratio} times its size"
    return None


def _check_collisions(members: list[zipfile.ZipInfo], watch: Watch) -> None:
    """Raise when two names are one on some file system, or one is both a file and a folder."""
    folders: dict[str, str] = {}
    files: set[str] = set()
    for member in members:
        path = PurePosixPath(member.filename)
        for folder in (path, *path.parents) if member.is_dir() else path.parents:
            if folders.setdefault(_one_spelling(folder), str(folder)) != str(folder):
                raise RejectedArchiveError(watch.source, f"one name twice: {str(folder)!r}")
        if not member.is_dir():
            if _one_spelling(path) in files:
                raise RejectedArchiveError(watch.source, f"one name twice: {str(path)!r}")
            files.add(_one_spelling(path))
    if both := files & folders.keys():
        raise RejectedArchiveError(watch.source, f"a file that is a folder too: {min(both)!r}")


def _one_spelling(path: PurePosixPath) -> str:
    return unicodedata.normalize("NFC", str(path)).casefold()


def _unpack(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], tree: Path, watch: Watch
) -> None:
    """Write the files; zipfile reads no more of one than its stated size, and checks its sum."""
    tree.mkdir()
    written = 0
    for member in members:
        target = tree / member.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as packed, target.open("xb") as file:
            shutil.copyfileobj(packed, file, _CHUNK)
        written += member.file_size
        watch.reached(written)
