"""Where the user's package managers install from, for those that run in a sandbox.

The files of these settings stay invisible there, because they may have passwords in them. Of them
only the address of an index and the path of its certificates are taken.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

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


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """Variables that name an index, and those that name certificates."""

    indexes: dict[str, str]
    certificates: dict[str, str]


def package_settings(
    environ: Mapping[str, str] = os.environ, home: Path | None = None
) -> PackageSettings:
    """Return the settings of the user's pip and npm, without passwords."""
    folder = home or Path.home()
    pip = _pip(environ, folder)
    npm = _npm(folder)
    written = {
        "PIP_INDEX_URL": pip.get("index-url", ""),
        "PIP_CERT": pip.get("cert", ""),
        "npm_config_registry": npm.get("registry", ""),
        "npm_config_cafile": npm.get("cafile", ""),
    }
    known = {**written, **environ}
    indexes = {
        name: _without_password(known[name])
        for name in ("PIP_INDEX_URL", "npm_config_registry")
        if known[name].startswith(("http://", "https://"))
    }
    certificates = {
        name: known[name] for name in _CERTIFICATES if name in known and _is_there(known[name])
    }
    return PackageSettings(indexes, certificates)


def _pip(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf"]
    if own := environ.get("PIP_CONFIG_FILE"):
        files.append(Path(own))
    settings = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        settings.read(files, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    return dict(settings["global"]) if settings.has_section("global") else {}


def _npm(home: Path) -> dict[str, str]:
    try:
        text = (home / ".npmrc").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    lines = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


def _is_there(path: str) -> bool:
    return path.startswith("/") and os.access(path, os.R_OK)


def _without_password(url: str) -> str:
    split = urlsplit(url)
    return split._replace(netloc=split.netloc.rpartition("@")[2]).geturl()
