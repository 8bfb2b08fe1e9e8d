"""Run as a program of its own: makes a network that has nothing but itself, and hands it over.

A process that makes a user namespace has to have one thread, so this is not done in ours. What is
sent are descriptors: of the user namespace, of the network namespace, and of a socket that listens
in it. They keep the namespaces alive; this program ends.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_NEW_USER_AND_NETWORK = 0x10000000 | 0x40000000
_SET_FLAGS = 0x8914
_UP_AND_RUNNING = 0x1 | 0x40


def main(descriptor: int) -> None:
    """Send the descriptors over the socket `descriptor`."""
    if sys.platform == "win32":
        raise OSError("Windows has no network namespaces")
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER_AND_NETWORK) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    Path("/proc/self/setgroups").write_text("deny", "ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh", b"lo", _UP_AND_RUNNING))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    with socket.socket(fileno=descriptor) as channel:
        spaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in ("user", "net")]
        socket.send_fds(channel, [b"."], [*spaces, listener.fileno()])


if __name__ == "__main__":
    main(int(sys.argv[1]))
