"""A registry of crates and of Go modules that serves one package, `numbers`."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import socket
import struct
import sys
import tarfile
import zipfile
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from threading import Thread
from types import TracebackType
from typing import Any

if sys.platform != "win32":
    import fcntl

_GET_ADDRESS = 0x8915
MODULE = "example.org/numbers"
_RUST = "pub fn six() -> i64 { 6 }\n"
_GO = "package numbers\n\nfunc Six() int { return 6 }\n"


def _own_address() -> str:
    """Return an address of this machine that commands reach through the proxy.

    `localhost` and 127.0.0.1 are in their own network, and Go uses no proxy for any loopback
    address; the last resort is one that only Go does not reach.
    """
    assert sys.platform != "win32", "Windows has no ioctl"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                found = fcntl.ioctl(control, _GET_ADDRESS, struct.pack("256s", name.encode()))
                address = ip_address(found[20:24])
                if address.is_private and not address.is_loopback and not address.is_link_local:
                    return str(address)
    return "127.0.0.2"


class Registry:
    """Serves until the block ends; `requested` are the paths that were asked for."""

    def __init__(self) -> None:
        requested: list[str] = []
        files: dict[str, bytes] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requested.append(self.path)
                body = files.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:
                """Stay quiet."""

        self.requested = requested
        self.host = _own_address()
        self._server = ThreadingHTTPServer((self.host, 0), Handler)
        self.place = f"{self.host}:{self._server.server_address[1]}"
        files |= _crates(f"http://{self.place}/crates")
        files |= _modules()

    def __enter__(self) -> Registry:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _crates(address: str) -> dict[str, bytes]:
    """Return the files of a sparse registry of cargo, which is at `/crates/`."""
    manifest = '[package]\nname = "numbers"\nversion = "1.0.0"\nedition = "2021"\n'
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, text in (("Cargo.toml", manifest), ("src/lib.rs", _RUST)):
            member = tarfile.TarInfo(f"numbers-1.0.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    crate = gzip.compress(written.getvalue())
    entry: dict[str, Any] = {
        "name": "numbers",
        "vers": "1.0.0",
        "deps": [],
        "cksum": hashlib.sha256(crate).hexdigest(),
        "features": {},
        "yanked": False,
    }
    return {
        "/crates/config.json": json.dumps({"dl": f"{address}/{{crate}}-{{version}}"}).encode(),
        "/crates/nu/mb/numbers": json.dumps(entry).encode() + b"\n",
        "/crates/numbers-1.0.0": crate,
    }


def _modules() -> dict[str, bytes]:
    """Return the files of a proxy of Go, which is at `/modules`."""
    manifest = f"module {MODULE}\n\ngo 1.21\n"
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in (("go.mod", manifest), ("numbers.go", _GO)):
            archive.writestr(f"{MODULE}@v1.0.0/{name}", text)
    info = {"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}
    versions = f"/modules/{MODULE}/@v"
    return {
        f"{versions}/list": b"v1.0.0\n",
        f"{versions}/v1.0.0.info": json.dumps(info).encode(),
        f"{versions}/v1.0.0.mod": manifest.encode(),
        f"{versions}/v1.0.0.zip": written.getvalue(),
    }
