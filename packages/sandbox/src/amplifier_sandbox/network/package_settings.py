"""Where the user's package managers install from, for those that run in a sandbox.

The files of these settings stay invisible there, because they may have passwords in them. Of them
only the addresses of indexes and the path of certificates are taken. Files of a project are not
read: a project would open addresses by itself.
"""

from __future__ import annotations

import configparser
import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

# Each names a file or a folder of certificates.
_CERTIFICATES = (
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "npm_config_cafile",
)
# Each names one index or several; cargo has a variable for each registry.
_INDEXES = re.compile(
    r"PIP_(EXTRA_)?INDEX_URL|UV_(DEFAULT_INDEX|INDEX|(EXTRA_)?INDEX_URL)|npm_config_registry"
    r"|GOPROXY|CARGO_REGISTRIES_[A-Z0-9_]+_INDEX"
)
# An index in a list, as uv and cargo write it, and what separates it from the next.
_ENTRY = re.compile(r"(?P<before>[\w.-]+=|sparse\+)?(?P<url>[^\s,|]+)(?P<after>[\s,|]*)")
_WORDS_OF_GO = ("direct", "off")
_HOST = re.compile(r"[a-z0-9_.:-]+")
# Without these, the managers would not use an index that has no certificate or no checksums.
_OTHERS = (
    "GONOPROXY",
    "GONOSUMDB",
    "GOPRIVATE",
    "GOSUMDB",
    "PIP_TRUSTED_HOST",
    "UV_INSECURE_HOST",
)


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """Variables that name indexes, those that name certificates, and further ones."""

    indexes: dict[str, str]
    certificates: dict[str, str]
    others: dict[str, str]

    @property
    def variables(self) -> dict[str, str]:
        """All of them, for the environment of a program."""
        return {**self.indexes, **self.certificates, **self.others}

    def addresses(self) -> list[SplitResult]:
        """Return the URL of each index."""
        entries = (each for value in self.indexes.values() for each in _ENTRY.finditer(value))
        return [urlsplit(each["url"]) for each in entries if each["url"] not in _WORDS_OF_GO]


def package_settings(
    environ: Mapping[str, str] = os.environ, home: Path | None = None
) -> PackageSettings:
    """Return the settings of the user's package managers, without passwords.

    Of pip, uv, npm (also for pnpm and yarn), cargo and Go.
    """
    folder = home or Path.home()
    settings = _absolute(environ, "XDG_CONFIG_HOME") or folder / ".config"
    known = {
        **_pip(environ, folder, settings),
        **_uv(environ, settings),
        **_npm(environ, folder),
        **_cargo(_absolute(environ, "CARGO_HOME") or folder / ".cargo"),
        **_go(environ, settings),
        **environ,
    }
    indexes = {name: _cleaned(known[name]) for name in known if _INDEXES.fullmatch(name)}
    certificates = {
        name: known[name] for name in _CERTIFICATES if name in known and _is_there(known[name])
    }
    # A URL, as in GOSUMDB, could have a password.
    others = {name: known.get(name, "") for name in _OTHERS if "://" not in known.get(name, "")}
    return PackageSettings(_set(indexes), certificates, _set(others))


def _set(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if value}


def _pip(environ: Mapping[str, str], home: Path, settings: Path) -> dict[str, str]:
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", settings / "pip/pip.conf"]
    own = _absolute(environ, "PIP_CONFIG_FILE")
    # By this one pip is told to read none.
    if own == Path(os.devnull):
        return {}
    if own is not None:
        files.append(own)
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(files, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    found = dict(parser["global"]) if parser.has_section("global") else {}
    return {
        "PIP_INDEX_URL": found.get("index-url", ""),
        "PIP_EXTRA_INDEX_URL": found.get("extra-index-url", ""),
        "PIP_CERT": found.get("cert", ""),
        "PIP_TRUSTED_HOST": found.get("trusted-host", ""),
    }


def _uv(environ: Mapping[str, str], settings: Path) -> dict[str, str]:
    table = _toml(_absolute(environ, "UV_CONFIG_FILE") or settings / "uv/uv.toml")
    default = _text(table.get("index-url"))
    more: list[str] = []
    for each in _tables(table.get("index")):
        url = _text(each.get("url"))
        if each.get("default") is True:
            default = url
        elif name := _text(each.get("name")):
            more.append(f"{name}={url}")
        else:
            more.append(url)
    # The older variable is the weaker one for uv, although it is stronger than the file.
    if "UV_INDEX_URL" in environ:
        default = ""
    return {"UV_DEFAULT_INDEX": default, "UV_INDEX": " ".join(more)}


def _npm(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    # npm reads its variables in any case.
    spelled = {name.lower(): value for name, value in environ.items()}
    found = _lines(_absolute(spelled, "npm_config_userconfig") or home / ".npmrc")
    return {
        "npm_config_registry": spelled.get("npm_config_registry", found.get("registry", "")),
        "npm_config_cafile": spelled.get("npm_config_cafile", found.get("cafile", "")),
    }


def _cargo(folder: Path) -> dict[str, str]:
    registries = _toml(folder / "config.toml").get("registries")
    if not isinstance(registries, dict):
        return {}
    found: dict[str, str] = {}
    for name, registry in cast("dict[str, Any]", registries).items():
        variable = f"CARGO_REGISTRIES_{name.upper().replace('-', '_')}_INDEX"
        for each in _tables([registry]):
            found[variable] = _text(each.get("index"))
    return found


def _go(environ: Mapping[str, str], settings: Path) -> dict[str, str]:
    # What `go env -w` has set.
    found = _lines(_absolute(environ, "GOENV") or settings / "go/env")
    return {name: value for name, value in found.items() if name.startswith("GO")}


def _lines(file: Path) -> dict[str, str]:
    """Return the lines `name=value` of a file."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    lines = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


def _toml(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        return tomllib.loads(file.read_text("utf-8"))
    return {}


def _tables(value: object) -> list[dict[str, Any]]:
    each = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", table) for table in each if isinstance(table, dict)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _absolute(environ: Mapping[str, str], name: str) -> Path | None:
    """Return the path in a variable; one that depends on the folder may be in a project."""
    path = environ.get(name, "")
    return Path(path) if path.startswith("/") else None


def _is_there(path: str) -> bool:
    return path.startswith("/") and os.access(path, os.R_OK)


def _cleaned(value: str) -> str:
    """Return the indexes that are reached by HTTP, without passwords; others are left out."""
    kept = ""
    for entry in _ENTRY.finditer(value):
        url = _without_password(entry["url"])
        if url:
            kept += (entry["before"] or "") + url + entry["after"]
    return kept.strip(" \t\n,|")


def _without_password(text: str) -> str:
    if text in _WORDS_OF_GO:
        return text
    with suppress(ValueError):
        url = urlsplit(text)
        host = url.hostname or ""
        # Reading the port is what finds an invalid one.
        if url.scheme in ("http", "https") and _HOST.fullmatch(host) and url.port != 0:
            return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
    return ""
