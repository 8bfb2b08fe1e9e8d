"""A module is validated without real credentials, without the network, and leaves nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator, MockTool
from amplifier_core.validation import ToolValidator, rehearsal
from amplifier_core.validation.base import import_module_from_path
from amplifier_core.validation.rehearsal import (
    PLACEHOLDER,
    NetworkRefusedError,
    is_credential,
    masked_credentials,
    mounted,
    refused_network,
    replaced,
)

Mount = Callable[[Any, dict[str, Any]], Any]

FAR_AWAY = ("192.0.2.1", 443)


async def validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: Mount) -> Any:
    """Validate a module whose mount is `mount`."""
    package = tmp_path / "amplifier_module_rehearsed"
    package.mkdir()
    (package / "__init__.py").write_text("async def mount(c, config): ...", encoding="utf-8")
    module = import_module_from_path(package)
    monkeypatch.setattr(module, "mount", mount)
    try:
        return await ToolValidator().validate(package)
    finally:
        del sys.modules[package.name]


# --- credentials ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("OPENAI_API_KEY", True),
        ("github_token", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", True),
        ("DB_PASSWORD", True),
        ("PATH", False),
        ("PWD", False),
        ("KEYBOARD_LAYOUT", False),
    ],
)
def test_credentials_are_told_by_their_names(variable: str, expected: bool) -> None:
    assert is_credential(variable) is expected


async def test_a_mount_sees_placeholders_instead_of_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", "real")
    monkeypatch.setenv("PLANTED_REGION", "north")
    seen: dict[str, str] = {}

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        seen.update(os.environ)
        await coordinator.mount("tools", MockTool())

    result = await validated(tmp_path, monkeypatch, mount)

    assert result.passed
    assert seen["PLANTED_API_KEY"] == PLACEHOLDER
    assert seen["PLANTED_REGION"] == "north"
    assert os.environ["PLANTED_API_KEY"] == "real"


def test_credentials_come_back_when_the_last_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", "real")

    masked_credentials.__enter__()
    masked_credentials.__enter__()
    masked_credentials.__exit__(None, None, None)
    assert os.environ["PLANTED_TOKEN"] == PLACEHOLDER
    masked_credentials.__exit__(None, None, None)

    assert os.environ["PLANTED_TOKEN"] == "real"


# --- network -------------------------------------------------------------------------------------


async def test_a_mount_that_uses_the_network_is_refused_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", MockTool())
        with pytest.raises(NetworkRefusedError), socket.socket() as outside:
            outside.connect(FAR_AWAY)

    result = await validated(tmp_path, monkeypatch, mount)

    (warning,) = result.warnings
    assert warning.name == "no_network_at_mount"
    assert "192.0.2.1" in warning.message
    assert result.passed


async def test_a_mount_that_needs_the_network_fails_with_both_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await asyncio.open_connection("example.test", 443)

    result = await validated(tmp_path, monkeypatch, mount)

    assert [check.name for check in result.errors] == ["protocol_compliance"]
    assert "no network while a module is validated" in result.errors[0].message
    assert [check.name for check in result.warnings] == ["no_network_at_mount"]


async def test_a_quiet_mount_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", MockTool())

    result = await validated(tmp_path, monkeypatch, mount)

    check = next(each for each in result.checks if each.name == "no_network_at_mount")
    assert check.passed


def test_local_sockets_stay_open_and_sockets_are_restored(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Python has no local sockets on Windows")
    before = (socket.socket.connect, socket.getaddrinfo)
    path = str(tmp_path / "local")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        with refused_network() as attempts:
            client.connect(path)

    assert attempts == []
    assert (socket.socket.connect, socket.getaddrinfo) == before
    assert "connect" not in vars(socket.socket)


def test_of_two_rehearsals_each_hears_of_its_own_attempts() -> None:
    with refused_network() as outer:
        with (
            refused_network() as inner,
            pytest.raises(NetworkRefusedError),
            socket.socket() as outside,
        ):
            outside.connect_ex(FAR_AWAY)
        with pytest.raises(NetworkRefusedError):
            socket.getaddrinfo("example.test", 80)

    assert inner == [str(FAR_AWAY)]
    assert outer == [str(("example.test", 80))]


def test_a_thread_that_knows_no_rehearsal_counts_for_all() -> None:
    def attempt() -> None:
        with pytest.raises(NetworkRefusedError), socket.socket() as outside:
            outside.connect(FAR_AWAY)

    with refused_network() as attempts:
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join(timeout=120)

    assert attempts == [str(FAR_AWAY)]


# --- everything is undone ------------------------------------------------------------------------


async def test_the_returned_and_the_registered_cleanups_run() -> None:
    undone: list[str] = []

    async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
        coordinator.register_cleanup(lambda: undone.append("registered"))

        async def cleanup() -> None:
            undone.append("returned")

        return cleanup

    async with mounted(mount, MockCoordinator(), "tools"):
        assert undone == []

    assert undone == ["returned", "registered"]


async def test_what_a_failing_mount_registered_is_cleaned_up() -> None:
    undone: list[str] = []

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        coordinator.register_cleanup(lambda: undone.append("registered"))
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        async with mounted(mount, MockCoordinator(), "tools"):
            pass

    assert undone == ["registered"]


async def test_a_mount_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "MOUNT_SECONDS", 0.01)

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"mount\(\) did not end within 0.01 s"):
        async with mounted(mount, MockCoordinator(), "tools"):
            pass


def test_what_was_replaced_comes_back() -> None:
    class Owner:
        mine = 1

    with replaced(Owner, "mine", 2), replaced(Owner, "new", 3):
        assert (Owner.mine, vars(Owner)["new"]) == (2, 3)

    assert Owner.mine == 1
    assert not hasattr(Owner, "new")
