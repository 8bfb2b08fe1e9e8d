"""Source URIs: how a mount plan or a bundle says where something comes from.

| form                                                | kind    |
|-----------------------------------------------------|---------|
| `./x`, `../x`, `/x`, `~/x`, `a/b`, `file:///x`       | path    |
| `name`, `package:name`                              | package |
| `git+https://host/org/repo@ref#subdirectory=a/b`    | git     |
| `git+ssh://git@host/org/repo@ref`, `git+file:///x`  | git     |
| `zip+https://host/x.zip#subdirectory=a/b`           | zip     |
| `zip+file:///x.zip`                                 | zip     |

`#path=` is the same as `#subdirectory=`.

Plain `http` is allowed for this machine only, and an address never has a password in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from amplifier_foundation.sources.errors import SourceFormatError

__all__ = ["Kind", "Source", "parse_source"]

Kind = Literal["path", "package", "git", "zip"]

_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9\[]([A-Za-z0-9.:\[\]_-]*[A-Za-z0-9\]])?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
# No refspec (`:`, `+`, `*`), no option, no revision expression.
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCHEMES = {"git": ("https", "ssh", "http", "file"), "zip": ("https", "http", "file")}
_PARTS = ("type", "path", "name", "url", "ref", "subdirectory")
_FOLDER_KEYS = ("subdirectory", "path")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Source(NamedTuple):
    """Where something comes from; `str()` gives the one way to write it.

    `location` is a path, the name of a distribution, or an address without its `git+` or `zip+`.
    """

    kind: Kind
    location: str
    ref: str | None = None
    subdirectory: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether it must be fetched, and therefore pinned."""
        return self.kind in ("git", "zip")

    @property
    def commit(self) -> str | None:
        """The full commit, when the reference is one."""
        if self.ref and _COMMIT.fullmatch(self.ref):
            return self.ref
        return None

    def __str__(self) -> str:
        if self.kind == "path":
            return self.location
        if self.kind == "package":
            return f"package:{self.location}"
        ref = f"@{self.ref}" if self.ref else ""
        if self.subdirectory:
            subdirectory = f"#subdirectory={self.subdirectory}"
        else:
            subdirectory = ""
        return f"{self.kind}+{self.location}{ref}{subdirectory}"


def parse_source(given: str | Mapping[str, Any] | Source) -> Source:
    """Parse the value of a `source:`.

    Raises:
        SourceFormatError: it is not a source, or is not safe to use.
    """
    if isinstance(given, Source):
        return given
    if not isinstance(given, str):
        return _from_mapping(given)
    # White space at the ends is removed, so a folder whose name ends with it cannot be named.
    text = given.strip()
    if not text or "\0" in text:
        raise _no_source(given, "It is empty or has a zero byte.")
    scheme, has_scheme, rest = text.partition("+")
    if has_scheme and scheme in _SCHEMES and "://" in rest:
        return _remote(given, cast("Kind", scheme), rest)
    if text.startswith("file:"):
        return _file(given, text)
    if text.startswith("package:"):
        return _package(given, text.removeprefix("package:"))
    if "://" in text:
        raise _no_source(given, f"`{text.partition('://')[0]}` is no kind of source.")
    if "/" in text or text.startswith((".", "~")):
        return Source("path", text)
    return _package(given, text)


def _from_mapping(written: Any) -> Source:
    """Read the long form: `type` and its `url`, `ref`, `path` or `name`."""
    given = cast("Mapping[str, Any]", written)
    if not isinstance(written, Mapping) or not all(
        isinstance(given.get(part, ""), str) for part in _PARTS
    ):
        raise _no_source(written, "It is neither a text nor `type: ...` with texts.")
    kind = given.get("type", "")
    path = given.get("path", "").strip()
    if kind in ("file", "path", "local") and path and "\0" not in path:
        return Source("path", path)
    if kind == "package" and given.get("name"):
        return _package(given, given["name"])
    if kind in _SCHEMES and given.get("url"):
        # Parsed again as text, so that both forms pass the same checks.
        url = given["url"].removeprefix(f"{kind}+")
        ref = f"@{given['ref']}" if given.get("ref") else ""
        path = given.get("subdirectory") or path
        return parse_source(f"{kind}+{url}{ref}" + (f"#subdirectory={path}" if path else ""))
    raise _no_source(given, "It needs a `type` of git, zip, path or package, and its address.")


def _file(given: Any, text: str) -> Source:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise _no_source(given, "A file address has three slashes: `file:///folder`.")
    path = PurePosixPath(unquote(parts.path)) / _subdirectory(given, parts.fragment)
    return Source("path", str(path))


def _package(given: Any, name: str) -> Source:
    if not _DISTRIBUTION.fullmatch(name):
        raise _no_source(given, f"`{name}` cannot be the name of a distribution.")
    return Source("package", name)


def _remote(given: Any, kind: Kind, text: str) -> Source:
    address, _, fragment = text.partition("#")
    head, slashes, tail = address.partition("://")
    authority, slash, path = tail.partition("/")
    ref = None
    if kind == "git" and "@" in path:
        path, _, ref = path.rpartition("@")
    _check_address(given, kind, head, authority, path)
    if ref is not None and (not _REF.fullmatch(ref) or ".." in ref):
        raise _no_source(given, f"`{ref}` is no branch, tag or commit.")
    subdirectory = _subdirectory(given, fragment)
    return Source(kind, f"{head}{slashes}{authority}{slash}{path}", ref, subdirectory)


def _check_address(given: Any, kind: Kind, scheme: str, authority: str, path: str) -> None:
    if scheme not in _SCHEMES[kind]:
        raise _no_source(given, f"{kind} is not fetched by `{scheme}`.")
    if not path or re.search(r"[\x00-\x20\x7f]", path):
        raise _no_source(given, "Its path is empty or has characters that no address has.")
    if scheme == "file":
        if authority:
            raise _no_source(given, f"A file address has three slashes: `{kind}+file:///folder`.")
        return
    user, has_user, host = authority.rpartition("@")
    if has_user and (scheme != "ssh" or not _USER.fullmatch(user)):
        raise _no_source(given, "An address in a plan or a lock carries no credentials.")
    if not _HOST.fullmatch(host):
        raise _no_source(given, f"`{host}` is no host.")
    if host.startswith("["):
        name = host.partition("]")[0][1:]
    else:
        name = host.partition(":")[0]
    if scheme == "http" and name not in _LOOPBACK:
        raise _no_source(given, "Without https, anybody on the way could change what arrives.")


def _subdirectory(given: Any, fragment: str) -> str:
    if not fragment:
        return ""
    key, _, value = fragment.partition("=")
    path = PurePosixPath(value)
    is_inside = not path.is_absolute() and ".." not in path.parts and "\\" not in value
    if key not in _FOLDER_KEYS or not path.parts or not is_inside:
        raise _no_source(given, f"`#{fragment}` is not `#subdirectory=` and a folder inside.")
    return str(path)


def _no_source(given: Any, why: str) -> SourceFormatError:
    return SourceFormatError(f"`{given}` is no source.", why=why)
