"""No contained program reaches the sockets of the user's other programs."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.machine import Machine
from attacks.own_installation import run_python, under_landlock

_CONNECT = """
import socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for address in sys.argv[1:]:
        address = address.replace("@", chr(0))
        try:
            with socket.socket(socket.AF_UNIX, kind) as made:
                made.connect(address)
                made.sendall(b"from inside")
        except OSError as error:
            print(error)
        try:
            one, two = socket.socketpair(socket.AF_UNIX, kind)
            one.connect(address)
            one.sendall(b"from inside")
        except OSError as error:
            print(error)
one, two = socket.socketpair()
one.sendall(b"pair")
print(two.recv(4))
"""


def _unix_socket(kind: socket.SocketKind) -> socket.socket:
    if sys.platform == "win32":
        pytest.skip("Python has no Unix sockets on Windows")
    return socket.socket(socket.AF_UNIX, kind)


@pytest.fixture
def listeners(machine: Machine) -> Iterator[dict[str, list[socket.socket]]]:
    """Sockets of the user: outside of the project, inside of it, and without a file."""
    abstract = f"amplifier-attack-{os.getpid()}"
    addresses = {
        "outside": str(machine.user_home / "sock"),
        "inside": str(machine.project / "sock"),
        f"@{abstract}": f"\0{abstract}",
    }
    made: dict[str, list[socket.socket]] = {}
    with contextlib.ExitStack() as stack:
        for name, address in addresses.items():
            for kind, ending in ((socket.SOCK_STREAM, ""), (socket.SOCK_DGRAM, "d")):
                listener = stack.enter_context(_unix_socket(kind))
                listener.bind(address + ending)
                listener.setblocking(False)
                if kind == socket.SOCK_STREAM:
                    listener.listen()
                made.setdefault(name, []).append(listener)
        yield made


def _heard(listeners: dict[str, list[socket.socket]]) -> list[str]:
    """Return which sockets somebody connected or wrote to."""
    heard: list[str] = []
    for name, (stream, datagrams) in listeners.items():
        with contextlib.suppress(BlockingIOError):
            stream.accept()[0].close()
            heard.append(name)
        with contextlib.suppress(BlockingIOError):
            datagrams.recv(100)
            heard.append(f"{name}, datagrams")
    return heard


@pytest.mark.attack("review H6")
def test_under_landlock_no_socket_of_the_user_can_be_connected_to(
    machine: Machine, listeners: dict[str, list[socket.socket]]
) -> None:
    machine.write("connect.py", _CONNECT)
    abstract = next(name for name in listeners if name.startswith("@"))
    addresses = [f"{machine.user_home}/sock", f"{machine.project}/sock", abstract]
    everything = " ".join([*addresses, *(f"{each}d" for each in addresses)])

    said = under_landlock(machine, f"python3 connect.py {everything}")

    assert _heard(listeners) == []
    assert "b'pair'" in said, said


@pytest.mark.slow
@pytest.mark.attack("review H6")
@pytest.mark.parametrize("place", ["user_home", "project"])
def test_under_landlock_tmux_cannot_be_told_to_run_something(
    machine: Machine, tmp_path: Path, place: str
) -> None:
    address = getattr(machine, place) / "tmux.sock"
    marker = machine.user_home / "ran"
    tmux = ["tmux", "-f", "/dev/null", "-S", str(address)]
    subprocess.run([*tmux, "new-session", "-d", "sleep 60"], check=True, env=machine.environment)
    try:
        subprocess.run([*tmux, "run-shell", f"touch {marker}.witness"], check=True)
        said = under_landlock(machine, f"tmux -S {address} run-shell 'touch {marker}'")
        # What was accepted before this is done before this, too.
        subprocess.run([*tmux, "run-shell", "true"], check=True)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)

    assert Path(f"{marker}.witness").exists(), "tmux itself does not work here"
    assert not marker.exists(), said


@pytest.mark.slow
@pytest.mark.attack("review H6")
def test_with_the_network_no_abstract_socket_of_the_machine_can_be_connected_to(
    machine: Machine, listeners: dict[str, list[socket.socket]]
) -> None:
    machine.write("connect.py", _CONNECT)
    abstract = next(name for name in listeners if name.startswith("@"))
    script = f"""
import subprocess
from amplifier_sandbox.processes.sandbox import Sandbox
sandbox = Sandbox.detect()
assert sandbox.level == "bubblewrap", sandbox
argv = ["/usr/bin/python3", "connect.py", "{abstract}", "{abstract}d", "{machine.project}/sock"]
with sandbox.command(argv, workspace=".", network=True) as launch:
    subprocess.run(launch.argv, env=launch.env, cwd=launch.cwd, pass_fds=launch.pass_fds)
"""
    said = run_python(Path(sys.executable), script, machine)

    assert _heard(listeners) == []
    assert "b'pair'" in said, said
