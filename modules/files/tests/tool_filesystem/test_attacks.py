"""Attacks on the file system, through the tools as a model calls them."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.models import ToolResult

Call = Callable[..., Awaitable[ToolResult]]

pytestmark = pytest.mark.usefixtures("resolves")


def rule(result: ToolResult) -> str:
    """Return the rule that a refusal names."""
    assert not result.success
    assert result.error is not None
    assert result.error["message"]
    return result.error.get("rule", "")


def text(path: Path) -> str:
    """Return what a file holds."""
    return path.read_text(encoding="utf-8")


async def every_change(call: Call, path: str) -> list[ToolResult]:
    """Try every tool that changes a file."""
    edit = {"old_string": "secret", "new_string": "public"}
    return [
        await call("write_file", file_path=path, content="public"),
        await call("edit_file", file_path=path, **edit),
        await call("multi_edit", file_path=path, edits=[edit]),
    ]


@pytest.mark.attack("F1")
@pytest.mark.parametrize("target", ["/etc/passwd", "{secret}", "../secret.txt"])
async def test_a_link_to_the_outside_is_neither_read_nor_written(
    call: Call, work: Path, secret: Path, target: str
) -> None:
    (work / "link").symlink_to(target.format(secret=secret))
    before = text(Path("/etc/passwd"))

    assert rule(await call("read_file", file_path="link")) == "outside"
    assert {rule(each) for each in await every_change(call, "link")} == {"outside"}

    assert text(secret) == "secret"
    assert text(Path("/etc/passwd")) == before


@pytest.mark.attack("F1")
async def test_a_linked_folder_does_not_lead_out(call: Call, work: Path, secret: Path) -> None:
    (work / "up").symlink_to("..")

    assert rule(await call("list_directory", path="up")) == "outside"
    assert rule(await call("read_file", file_path="up/secret.txt")) == "outside"
    assert {rule(each) for each in await every_change(call, "up/secret.txt")} == {"outside"}
    assert rule(await call("write_file", file_path="up/new", content="x")) == "outside"
    assert text(secret) == "secret"
    assert not secret.with_name("new").exists()


@pytest.mark.attack("F2")
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "./sub/../../secret.txt",
        "{work}/../secret.txt",
        "//{secret}",
        "{secret}",
        "{work}-evil/secret.txt",
        "/etc/passwd",
        "secret.txt\0",
        "x" * 5_000,
        "x" * 300,
        "a/" * 2_000,
        "\ud800",
        "\udcff\udcfe",
        "",
        ".",
        "/",
    ],
)
async def test_an_odd_path_is_refused_in_plain_words(
    call: Call, work: Path, secret: Path, path: str
) -> None:
    (work / "sub").mkdir()
    evil = work.with_name("work-evil")
    evil.mkdir()
    (evil / "secret.txt").write_text("secret", encoding="utf-8")
    path = path.format(work=work, secret=secret)

    reading = await call("read_file", file_path=path)

    assert not reading.success
    assert "secret" not in str(reading.output).replace("secret.txt", "")
    assert len(reading.get_serialized_output()) < 1_000
    if path not in ("x" * 300, "\udcff\udcfe", "a/" * 2_000):
        for result in await every_change(call, path):
            assert not result.success
    assert text(secret) == "secret"
    assert text(evil / "secret.txt") == "secret"


@pytest.mark.attack("F4")
@pytest.mark.parametrize("kind", ["pipe", "sparse", "device", "proc", "fd", "folder"])
async def test_what_is_no_file_is_refused_at_once(call: Call, work: Path, kind: str) -> None:
    path, began = work / kind, time.monotonic()
    if kind == "pipe":
        if sys.platform == "win32":
            pytest.skip("Windows has no pipes that are files")
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(10_000_000_000)
    elif kind == "folder":
        path.mkdir()
    else:
        targets = {"device": "/dev/zero", "proc": "/proc/self/root/etc/passwd", "fd": "/dev/fd/0"}
        path.symlink_to(targets[kind])

    assert rule(await call("read_file", file_path=kind)) in ("kind", "size", "outside")
    for result in await every_change(call, kind):
        assert rule(result) in ("kind", "size", "outside")
    assert time.monotonic() - began < 2


@pytest.mark.attack("F4")
async def test_the_other_name_of_a_hard_link_keeps_its_content(
    call: Call, work: Path, secret: Path
) -> None:
    (work / "twin").hardlink_to(secret)

    result = await call("edit_file", file_path="twin", old_string="secret", new_string="mine")

    assert result.success
    assert text(secret) == "secret"


@pytest.mark.attack("F5")
async def test_a_file_changed_since_it_was_read_is_refused_with_both_hashes(
    call: Call, work: Path
) -> None:
    (work / "a.txt").write_text("secret", encoding="utf-8")
    await call("read_file", file_path="a.txt")
    (work / "a.txt").write_text("secret, and mine", encoding="utf-8")
    hashes = [hashlib.sha256(each).hexdigest()[:12] for each in (b"secret", b"secret, and mine")]

    for path in ("a.txt", "./a.txt", f"{work}/a.txt"):
        for result in await every_change(call, path):
            assert rule(result) == "changed"
            assert f"{hashes[0]}, now it has {hashes[1]}" in str(result.output)
    assert text(work / "a.txt") == "secret, and mine"

    await call("read_file", file_path="a.txt")
    done = await call("edit_file", file_path="a.txt", old_string="secret", new_string="public")
    assert done.success


@pytest.mark.attack("F5")
async def test_a_file_removed_since_it_was_read_is_not_written_again(
    call: Call, work: Path
) -> None:
    (work / "a.txt").write_text("text", encoding="utf-8")
    await call("read_file", file_path="a.txt")
    (work / "a.txt").unlink()

    result = await call("write_file", file_path="a.txt", content="again")
    assert rule(result) == "changed"
    assert "now it is gone" in str(result.output)

    await call("read_file", file_path="a.txt")
    assert (await call("write_file", file_path="a.txt", content="again")).success


@pytest.mark.attack("F6")
@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".GIT/hooks/pre-commit",
        "sub/.Git/config",
        ".amplifier/settings.yaml",
        ".bashrc",
        ".ZSHRC",
        "a/../.profile",
    ],
)
async def test_a_protected_path_is_not_written_whatever_was_allowed(
    mounted: Any, work: Path, path: str
) -> None:
    """The approval system of this session says yes to everything; nobody is even asked."""
    target = work / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("secret", encoding="utf-8")

    for spelling in (path, str(target)):
        for result in await every_change(mounted.call, spelling):
            assert rule(result) == "protected"
    assert text(target) == "secret"
    assert (await mounted.call("read_file", file_path=path)).success


@pytest.mark.attack("F6")
async def test_a_link_is_no_way_to_a_protected_path(call: Call, work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".git/config").write_text("secret", encoding="utf-8")
    (work / "harmless").symlink_to(".git")
    (work / "plain.txt").symlink_to(".git/config")

    for path in ("harmless/config", "plain.txt"):
        assert {rule(each) for each in await every_change(call, path)} == {"link"}
    assert rule(await call("write_file", file_path="harmless/new", content="x")) == "link"
    assert sorted(each.name for each in (work / ".git").iterdir()) == ["config"]
    assert text(work / ".git/config") == "secret"
