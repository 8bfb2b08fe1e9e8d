"""What a `source:` says, and what it must not say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amplifier_foundation.sources import Source, parse_source
from amplifier_foundation.sources.errors import SourceFormatError
from contract.requirements import requirement


@requirement("PLAN-7")
@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("./x", Source("path", "./x")),
        ("../x", Source("path", "../x")),
        ("~/x", Source("path", "~/x")),
        ("modules/x", Source("path", "modules/x")),
        ("file:///a/b%20c", Source("path", "/a/b c")),
        ("file:///a#subdirectory=b", Source("path", "/a/b")),
        ("amplifier-module-x", Source("package", "amplifier-module-x")),
        ("package:amplifier-module-x", Source("package", "amplifier-module-x")),
        ("git+https://github.com/o/r", Source("git", "https://github.com/o/r")),
        ("git+https://h/o/r@feat/x", Source("git", "https://h/o/r", "feat/x")),
        (
            "git+https://h:8443/o/r.git@v1.0#subdirectory=modules/x",
            Source("git", "https://h:8443/o/r.git", "v1.0", "modules/x"),
        ),
        ("git+ssh://git@h/o/r@main", Source("git", "ssh://git@h/o/r", "main")),
        ("git+file:///o/r@main", Source("git", "file:///o/r", "main")),
        ("git+https://h/o/r#path=a/b.md", Source("git", "https://h/o/r", None, "a/b.md")),
        ("zip+https://h/x.zip#subdirectory=x", Source("zip", "https://h/x.zip", None, "x")),
        ("zip+http://127.0.0.1:80/x.zip", Source("zip", "http://127.0.0.1:80/x.zip")),
        ("zip+file:///x.zip", Source("zip", "file:///x.zip")),
    ],
)
def test_each_documented_form_is_understood(text: str, source: Source) -> None:
    assert parse_source(text) == source
    assert parse_source(str(source)) == source


def test_the_long_form_says_the_same_as_the_short_one() -> None:
    long = {"type": "git", "url": "https://h/o/r", "ref": "main", "path": "a/b"}
    assert parse_source(long) == parse_source("git+https://h/o/r@main#subdirectory=a/b")
    assert parse_source({"type": "file", "path": "./x"}) == Source("path", "./x")
    assert parse_source({"type": "package", "name": "x"}) == Source("package", "x")


@pytest.mark.attack("U1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://h/x",
        "git+ext://sh -c touch% x",
        "git+http://example.com/o/r@main",
        "zip+http://example.com/x.zip",
        "git+https://user:token@h/o/r@main",
        "git+https://token@h/o/r@main",
        "git+ssh://-oProxyCommand=x/o/r@main",
        "git+ssh://-oProxyCommand=x@h/o/r@main",
        "git+https://h/o/r@--upload-pack=x",
        "git+https://h/o/r@a:b",
        "git+https://h/o/r@a..b",
        "git+https://h/o/r@main#subdirectory=../x",
        "git+https://h/o/r@main#subdirectory=/x",
        "git+https://h/o/r@main#path=../x",
        "git+https://h/o/r@main#egg=x",
        "git+https://h/o/r x@main",
        "zip+ssh://h/x.zip",
        "git+file://host/x",
        "file://host/x",
        "package:--index-url=x",
    ],
)
def test_a_source_that_is_not_safe_to_follow_is_none(text: str) -> None:
    with pytest.raises(SourceFormatError):
        parse_source(text)


def test_importing_the_sources_loads_nothing_slow() -> None:
    code = (
        "import sys, amplifier_foundation.sources\n"
        "slow = {'pydantic', 'yaml', 'packaging', 'asyncio', 'subprocess', 'http.client', 'socket',"
        " 'ssl', 'zipfile', 'ast', 'urllib.request', 'importlib.metadata', 'tomllib'}\n"
        "print(sorted(slow & sys.modules.keys()))"
    )
    # What measures the coverage of subprocesses loads modules of its own into them.
    environ = {name: each for name, each in os.environ.items() if "COVERAGE" not in name}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
