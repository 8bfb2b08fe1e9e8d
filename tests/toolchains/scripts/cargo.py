#!/usr/bin/python3
"""Cargo where the machine has none: it downloads as the real one does, and compiles nothing."""

import hashlib
import io
import json
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

toolchain = Path(sys.argv[0]).parents[1]
sources = Path(os.environ.get("CARGO_HOME") or Path("~/.cargo").expanduser()) / "registry"


def get(url: str) -> bytes:
    """Return what a server of the registry answers."""
    with urllib.request.urlopen(url) as answer:
        return answer.read()


def add(name: str, version: str) -> None:
    """Download a crate, check it, unpack it and write it down."""
    index = os.environ["CARGO_REGISTRIES_LOCAL_INDEX"].removeprefix("sparse+")
    entry = json.loads(get(f"{index}{name[:2]}/{name[2:4]}/{name}"))
    template = json.loads(get(f"{index}config.json"))["dl"]
    crate = get(template.format(crate=name, version=version))
    if hashlib.sha256(crate).hexdigest() != entry["cksum"]:
        sys.exit("the checksum is another one")
    with tarfile.open(fileobj=io.BytesIO(crate)) as archive:
        archive.extractall(sources)
    with Path("Cargo.toml").open("a") as manifest:
        manifest.write(f'[dependencies]\n{name} = "{version}"\n')


def test() -> None:
    """Pass if there is a test, and what it uses was downloaded."""
    code = Path("src/lib.rs").read_text()
    if "#[test]" not in code:
        sys.exit("no test")
    if "numbers::six" in code and "six" not in (sources / "numbers-1.0.0/src/lib.rs").read_text():
        sys.exit("no such function")
    sys.stdout.write("test result: ok. 1 passed; 0 failed\n")


if "std" not in (toolchain / "lib/rustlib/components").read_text():
    sys.exit("the toolchain is not complete")
sources.mkdir(parents=True, exist_ok=True)
Path("target").mkdir(exist_ok=True)
if sys.argv[1] == "add":
    add(*sys.argv[-1].split("@"))
elif sys.argv[1] == "test":
    test()
