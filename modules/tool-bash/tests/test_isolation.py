"""What a command can see and reach: its workspace, the system's programs, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.session_folder import commands_home
from amplifier_sandbox.processes.private_home import prepared_home

FORBIDDEN_FAMILIES = {
    "raw": "AF_INET, SOCK_RAW, IPPROTO_ICMP",
    "packet": "AF_PACKET, SOCK_RAW",
    "vsock": "AF_VSOCK, SOCK_STREAM",
}
CONNECTIONS = {
    "tcp": ("AF_INET, SOCK_STREAM", "192.0.2.1"),
    "udp": ("AF_INET, SOCK_DGRAM", "192.0.2.1"),
    "ipv6": ("AF_INET6, SOCK_STREAM", "2001:db8::1"),
}
ESCAPES = {
    "write to the system": "echo x > /etc/planted",
    "write to the root": "echo x > /planted",
    "write to a device folder": "echo x > /dev/planted",
    "remount": "mount -o remount,rw /usr",
    "mount": "mount -t tmpfs none /tmp",
    "user namespace": "unshare -Ur true",
    "user namespace by clone": "python3 -c 'import ctypes; "
    "raise SystemExit(ctypes.CDLL(None).syscall(56, 0x10000011, 0, 0, 0, 0) < 0)'",
    "trace": "python3 -c 'import ctypes; "
    "raise SystemExit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) < 0)'",
    "root of the first process": "cat /proc/1/root/etc/shadow",
    "passwords": "cat /etc/shadow",
    "home of root": "ls ~root",
    "kernel setting": "echo x > /proc/sys/kernel/core_pattern",
    "system request": "echo h > /proc/sysrq-trigger",
    "kernel memory": "head -c 1 /proc/kcore",
    "device": "mknod disk b 8 0",
    "control group": "mkdir /sys/fs/cgroup/planted",
    "set-user-ID": "cp /bin/true suid && chmod 4755 suid",
    "set-group-ID": "cp /bin/true sgid && chmod g+s sgid",
    "terminal input": "python3 -c 'import fcntl, termios, os; "
    'fcntl.ioctl(os.open("/dev/ptmx", os.O_RDWR), termios.TIOCSTI, b"x")\'',
    "host name": "hostname planted",
    "clock": "date -s 2001-01-01",
    "hook of the repository": "echo x > .git/hooks/pre-commit",
    "repository moved away": "mv .git elsewhere",
    "missing protected folder": "mkdir -p .amplifier && echo x > .amplifier/settings.yaml",
    "protected folder replaced": "rmdir .amplifier && mkdir .amplifier",
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def command_lines() -> list[bytes]:
    found: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return found


def git(workspace: Path, *arguments: str) -> None:
    """Run git as anybody would, outside the sandbox."""
    subprocess.run(["git", "-C", str(workspace), *arguments], check=True, capture_output=True)


@pytest.mark.attack("S4")
@pytest.mark.parametrize(
    "command",
    ["env", "cat /proc/self/environ", "cat /proc/$PPID/environ", "cat /proc/*/environ", "set"],
)
async def test_no_secret_is_in_any_environment_a_command_can_see(bash: Any, command: str) -> None:
    result = await bash(command)

    assert os.environ["ANTHROPIC_API_KEY"] not in json.dumps(result.output)
    assert "HARMLESS_NAME" not in json.dumps(result.output)


_CERTIFICATES = re.compile(r"_CERT|_CA_|CAINFO|cafile|CA_BUNDLE")


async def test_the_environment_is_the_allow_list(bash: Any) -> None:
    result = await bash("env | cut -d= -f1")

    found = {name for name in result.output["stdout"].split() if not name.startswith("GIT_")}
    proxies = {f"{kind}_proxy" for kind in ("http", "https", "all", "no")}
    expected = {"HOME", "LANG", "PATH", "PWD", "SHLVL", "TERM", "_"}
    expected |= proxies | {name.upper() for name in proxies}
    # So that package managers do not repeat requests that are refused.
    expected |= {"CARGO_NET_RETRY", "PIP_RETRIES", "UV_HTTP_RETRIES", "npm_config_fetch_retries"}
    assert {name for name in found if not _CERTIFICATES.search(name)} == expected


async def test_a_named_variable_is_passed_on(mounted: Any) -> None:
    tool = await mounted(pass_env=["HARMLESS_NAME"])

    result = await tool.execute({"command": "echo $HARMLESS_NAME"})

    assert result.output["stdout"] == "harmless value\n"


@pytest.mark.attack("K2")
async def test_what_is_passed_on_is_in_no_command_line(mounted: Any, workspace: Path) -> None:
    tool = await mounted(pass_env=["ANTHROPIC_API_KEY"])
    running = asyncio.create_task(tool.execute({"command": "touch here; sleep 60"}))
    assert await wait_for((workspace / "here").exists, timeout=120)

    lines = command_lines()
    running.cancel()
    await asyncio.wait([running], timeout=120)

    assert any(str(workspace).encode() in line for line in lines)
    assert not any(os.environ["ANTHROPIC_API_KEY"].encode() in line for line in lines)


@pytest.mark.attack("K2")
async def test_no_core_is_dumped(bash: Any, workspace: Path) -> None:
    result = await bash("ulimit -c; bash -c 'kill -SEGV $$'; ls")

    assert result.output["stdout"] == "0\n"


@pytest.mark.attack("S7")
@pytest.mark.parametrize("family", FORBIDDEN_FAMILIES)
async def test_a_socket_below_the_network_cannot_be_made(bash: Any, family: str) -> None:
    code = f"from socket import *; socket({FORBIDDEN_FAMILIES[family]})"

    result = await bash(f"/usr/bin/python3 -c '{code}'")

    assert "Operation not permitted" in result.output["stderr"]


@pytest.mark.attack("S7")
@pytest.mark.parametrize("kind", CONNECTIONS)
async def test_nothing_but_the_loopback_can_be_reached(bash: Any, kind: str) -> None:
    family, address = CONNECTIONS[kind]
    code = (
        f'from socket import *; print(if_nameindex()); socket({family}).connect(("{address}", 9))'
    )

    result = await bash(f"/usr/bin/python3 -c '{code}'")

    assert result.output["stdout"] == "[(1, 'lo')]\n"
    assert "unreachable" in result.output["stderr"]


@pytest.mark.attack("S7")
async def test_a_server_on_this_machine_hears_nothing(bash: Any) -> None:
    heard: list[str] = []

    async def hear(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append("connected")
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await bash(f"exec 3<>/dev/tcp/127.0.0.1/{port} || getent hosts localhost.example")

    assert (result.success, heard) == (False, [])


@pytest.mark.attack("S7")
async def test_an_abstract_socket_of_this_machine_is_out_of_reach(bash: Any) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no abstract sockets")

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    name = f"amplifier-witness-{os.getpid()}"
    server = await asyncio.start_unix_server(close, path=f"\0{name}")
    code = f'import socket; socket.socket(socket.AF_UNIX).connect("\\0{name}")'
    async with server:
        result = await bash(f"/usr/bin/python3 -c '{code}'")

    assert "ConnectionRefusedError" in result.output["stderr"]


async def test_with_network_a_command_reaches_a_server(mounted: Any) -> None:
    tool = await mounted(network=True)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await tool.execute({"command": f"exec 3<>/dev/tcp/127.0.0.1/{port}"})

    assert result.success


@pytest.mark.attack("S8")
@pytest.mark.parametrize("name", ESCAPES)
async def test_an_escape_is_blocked(bash: Any, workspace: Path, name: str) -> None:
    result = await bash(ESCAPES[name])

    assert not result.success
    assert "command not found" not in result.output["stderr"]
    assert not (workspace / ".git" / "hooks" / "pre-commit").exists()
    assert not (workspace / ".amplifier").exists()


@pytest.mark.attack("S8")
async def test_a_command_sees_no_process_but_its_own(bash: Any) -> None:
    result = await bash("ls /proc | grep -cE '^[0-9]+$'")

    assert int(result.output["stdout"]) < 10


async def test_the_workspace_can_be_written_to(bash: Any, workspace: Path) -> None:
    result = await bash("mkdir -p a/b && echo text > a/b/c && chmod +x a/b/c && cat a/b/c")

    assert result.output["stdout"] == "text\n"
    assert (workspace / "a" / "b" / "c").read_text("utf-8") == "text\n"


async def test_tmp_is_private_and_gone_afterwards(bash: Any) -> None:
    await bash("echo x > /tmp/mine")

    result = await bash("cat /tmp/mine")

    assert "No such file" in result.output["stderr"]


async def test_home_is_kept_for_the_next_command_of_the_project(bash: Any, tmp_path: Path) -> None:
    await bash("mkdir -p ~/.cache/tool && echo kept > ~/.cache/tool/entry")

    result = await bash("cat ~/.cache/tool/entry; ls -A ~")

    assert result.output["stdout"] == "kept\n.cache\n"
    assert not (tmp_path / "user").exists()


async def test_another_project_has_another_home(
    mounted: Any, coordinator: Any, tmp_path: Path
) -> None:
    tool = await mounted()
    await tool.execute({"command": "echo x > ~/mine"})
    (tmp_path / "other").mkdir()
    coordinator.register_capability("session.working_dir", str(tmp_path / "other"))

    result = await tool.execute({"command": "ls -A ~"})

    assert (result.success, result.output["stdout"]) == (True, "")


async def test_home_stays_closed_to_other_users(bash: Any, amplifier_home: Path) -> None:
    await bash("chmod 777 ~")
    await bash("true")

    (home,) = (amplifier_home / "homes").iterdir()
    assert home.stat().st_mode & 0o777 == 0o700


async def test_without_protection_a_command_does_not_use_the_home_of_confined_ones(
    mounted: Any, workspace: Path
) -> None:
    tool = await mounted(sandbox="off: run commands unprotected")
    home = prepared_home(commands_home(workspace))
    (home / ".npmrc").write_text("planted", "utf-8")

    result = await tool.execute({"command": "ls -A ~"})

    assert (result.success, result.output["stdout"]) == (True, "")


async def test_further_paths_can_be_given(mounted: Any, workspace: Path) -> None:
    outside, extra = workspace.parent / "outside", workspace.parent / "extra"
    extra.mkdir()
    tool = await mounted(read_only_paths=[str(outside)], writable_paths=[str(extra)])

    result = await tool.execute(
        {"command": f"cat {outside}/witness; echo x > {extra}/y; echo x > {outside}/z"}
    )

    assert result.output["stdout"] == "untouched"
    assert names(extra) == ["y"]
    assert names(outside) == ["witness"]


async def test_the_session_says_where_the_workspace_is(
    mounted: Any, coordinator: Any, tmp_path: Path
) -> None:
    tool = await mounted()
    (tmp_path / "session").mkdir()
    coordinator.register_capability("session.working_dir", str(tmp_path / "session"))

    result = await tool.execute({"command": "pwd"})

    assert result.output["stdout"] == f"{tmp_path / 'session'}\n"


@pytest.fixture
def hostile_repository(workspace: Path) -> Path:
    """A repository that names a script of its own wherever git would run one."""
    script = workspace / "planted.sh"
    script.write_text("#!/bin/sh\ntouch planted\n", "utf-8")
    script.chmod(0o755)
    git(workspace, "init", "-q")
    for key in ("core.fsmonitor", "core.pager", "diff.external"):
        git(workspace, "config", key, "./planted.sh")
    git(workspace, "config", "core.hooksPath", ".")
    return workspace


@pytest.mark.attack("S10")
async def test_git_status_runs_nothing_that_a_repository_names(
    bash: Any, hostile_repository: Path
) -> None:
    result = await bash("git status --short")

    assert "planted.sh" in result.output["stdout"]
    assert not (hostile_repository / "planted").exists()
    git(hostile_repository, "status")
    assert (hostile_repository / "planted").exists(), "the repository is harmless"


@pytest.mark.attack("S10")
async def test_what_git_runs_for_a_repository_stays_in_the_sandbox(
    bash: Any, workspace: Path
) -> None:
    outside = workspace.parent / "outside"
    git(workspace, "init", "-q")
    git(workspace, "config", "filter.evil.clean", f"touch filtered; touch {outside}/planted; cat")
    (workspace / ".gitattributes").write_text("* filter=evil\n", "utf-8")
    (workspace / "file").write_text("text", "utf-8")

    await bash("git hash-object file")

    assert (workspace / "filtered").exists(), "the filter did not run"
    assert names(outside) == ["witness"]


@pytest.mark.attack("S10")
async def test_an_address_that_is_a_command_is_refused(bash: Any) -> None:
    result = await bash("git ls-remote 'ext::sh -c touch% planted'")

    assert "transport 'ext' not allowed" in result.output["stderr"]
