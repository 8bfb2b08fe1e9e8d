"""Fetch a zip archive, and unpack it only if every name and size in it is safe."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import struct
import zipfile
import zlib
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from amplifier_foundation.config.plain_files import open_plain
from amplifier_foundation.sources.content import collision, hash_of, is_covered, name_fault
from amplifier_foundation.sources.errors import FetchError, RejectedArchiveError
from amplifier_foundation.sources.fetch import Watch
from amplifier_foundation.sources.uri import Source
from amplifier_sandbox.files.component_walk import FOLDER, closing
from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import create_beneath

__all__ = ["fetch_archive"]

_CHUNK = 1 << 16
_SILENCE_SECONDS = 30.0
# The ratio does not apply below this size: a small file of zeros is harmless.
_SMALL = 1 << 20
# Encrypted, a patch of another file, strongly encrypted, names hidden.
_UNREADABLE = 0x1 | 0x20 | 0x40 | 0x2000
# LZMA is left out: the archive would say how much memory reading it takes.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
# The directory of an archive is read whole; real entries are far smaller than this.
_DIRECTORY_BYTES_PER_FILE = 256
# A file in an archive begins with a header of this size and its name.
_HEADER_BYTES = 30
_UNICODE_PATH = 0x7075
# What `zipfile` and the decompressors raise for damaged or hostile input.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)


class _Member(NamedTuple):
    """A file of an archive; `name` is the one that was checked, and the only one that is used."""

    name: str
    packed: zipfile.ZipInfo


def fetch_archive(
    source: Source, workspace: Path, watch: Watch, expected: str | None = None
) -> str | None:
    """Write the files of a zip archive to `workspace/tree`.

    If the archive does not have the `expected` content hash, nothing is written. Returns the hash
    that was found, or None if none was expected.

    Raises:
        FetchError: it cannot be fetched, or a limit was exceeded.
        RejectedArchiveError: something in it is not safe; nothing of it is kept.
    """
    parts = urlsplit(source.location)
    if parts.scheme == "file":
        archive = Path(unquote(parts.path))
    else:
        archive = workspace / "archive.zip"
        _download(source.location, archive, watch)
    try:
        with (
            open_plain(archive) as file,
            zipfile.ZipFile(_Bounded(file, watch.limits.files)) as opened,
        ):
            members = _checked(opened, watch)
            if expected is None:
                found = None
            else:
                found = _content_hash(opened, members, watch)
            # Without an expected hash, both are None.
            if found == expected:
                _unpack(opened, members, workspace / "tree", watch)
            return found
    except OSError as error:
        raise FetchError(f"{watch.source} cannot be read.", why=f"{error}.") from error
    except (*_BROKEN, RefusedError) as error:
        raise RejectedArchiveError(watch.source, f"a part that is broken: {error}") from error


class _Bounded:
    """An archive on disk that limits a read: `zipfile` reads the directory in one piece."""

    def __init__(self, file: BinaryIO, files: int) -> None:
        self._file = file
        self._most = max(1 << 20, files * _DIRECTORY_BYTES_PER_FILE)
        self.seek = file.seek
        self.tell = file.tell
        self.seekable = file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > self._most:
            raise zipfile.BadZipFile(f"its directory has more than {self._most:,} bytes")
        return self._file.read(self._most if size < 0 else size)


class _SameSafety(HTTPRedirectHandler):
    """Follows a redirect only to an address that the source itself could have named."""

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
            # `read1` returns what has arrived; `read` could wait for a slow server past the limit.
            while chunk := answer.read1(_CHUNK):
                size += len(chunk)
                watch.reached(size, total)
                file.write(chunk)
    except (OSError, HTTPException) as error:
        raise FetchError(f"{watch.source} could not be fetched.", why=f"{error}.") from error


def _checked(archive: zipfile.ZipFile, watch: Watch) -> list[_Member]:
    """Return the archive's files after checking every name and every stated size."""
    packed = archive.infolist()
    if len(packed) > watch.limits.files:
        raise RejectedArchiveError(watch.source, f"more than {watch.limits.files:,} files")
    if sum(each.file_size for each in packed) > watch.limits.bytes:
        raise RejectedArchiveError(watch.source, f"more than {watch.limits.bytes:,} bytes")
    # Not `filename`: from Python 3.12 on, an extra field of the archive can replace it.
    members = [_Member(each.orig_filename, each) for each in packed]
    for member in members:
        fault = _fault_of(member, watch.limits.ratio)
        if fault is not None:
            raise RejectedArchiveError(watch.source, f"{fault}: {member.name[:200]!r}")
    if _overlap(members, archive.start_dir):
        raise RejectedArchiveError(watch.source, "files that overlap")
    files = [member for member in members if not member.name.endswith("/")]
    folders = [member.name[:-1] for member in members if member.name.endswith("/")]
    fault = collision([member.name for member in files], folders)
    if fault is not None:
        raise RejectedArchiveError(watch.source, fault)
    return files


def _fault_of(member: _Member, ratio: int) -> str | None:
    packed = member.packed
    fault = name_fault(member.name)
    if fault is not None:
        return fault
    if packed.filename != member.name or _has_unicode_path(packed.extra):
        return "a file with two names"
    kind = stat.S_IFMT(packed.external_attr >> 16)
    if member.name.endswith("/"):
        plain = stat.S_IFDIR
    else:
        plain = stat.S_IFREG
    if kind not in (0, plain):
        return "a link or a special file"
    if packed.flag_bits & _UNREADABLE:
        return "an encrypted file"
    if packed.compress_type not in _COMPRESSIONS:
        return "a file in a compression that is not supported"
    if packed.file_size > max(_SMALL, ratio * packed.compress_size):
        return f"a file that grows to more than {ratio} times its size"
    return None


def _has_unicode_path(extra: bytes) -> bool:
    """Whether a file has a second name, which some readers use and others do not."""
    place = 0
    while place + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, place)
        if kind == _UNICODE_PATH:
            return True
        place += 4 + size
    return False


def _overlap(members: list[_Member], directory: int) -> bool:
    """Whether files share bytes of the archive, so that a small one expands to many files."""
    end = directory
    for member in sorted(members, key=lambda each: each.packed.header_offset, reverse=True):
        packed = member.packed
        # The name may have more bytes than characters, never fewer.
        if packed.header_offset + _HEADER_BYTES + len(member.name) + packed.compress_size > end:
            return True
        end = packed.header_offset
    return False


def _content_hash(archive: zipfile.ZipFile, members: list[_Member], watch: Watch) -> str:
    """Return the hash that the tree would have, without writing any of it."""
    digests: dict[str, str] = {}
    size = 0
    for member in members:
        if not is_covered(member.name):
            continue
        digest = hashlib.sha256()
        with archive.open(member.packed) as packed:
            while chunk := packed.read(_CHUNK):
                digest.update(chunk)
        digests[member.name] = digest.hexdigest()
        size += member.packed.file_size
        watch.reached(size)
    return hash_of(digests)


def _unpack(archive: zipfile.ZipFile, members: list[_Member], tree: Path, watch: Watch) -> None:
    """Write the files; zipfile reads no more than the stated size of each, and checks its CRC."""
    tree.mkdir()
    written = 0
    # Beneath an open folder, so that even a name that passed every check cannot leave the tree.
    with closing(os.open(tree, FOLDER)) as root:
        for member in members:
            target = os.fdopen(create_beneath(root, member.name), "wb")
            with target, archive.open(member.packed) as packed:
                shutil.copyfileobj(packed, target, _CHUNK)
            written += member.packed.file_size
            watch.reached(written)
