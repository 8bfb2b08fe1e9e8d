"""Locks the file that it is given, says so, and holds it until its input ends."""

from __future__ import annotations

import sys
from pathlib import Path

from amplifier_sandbox.platforms.locks import locked

if __name__ == "__main__":
    with locked(Path(sys.argv[1])):
        sys.stdout.write("locked\n")
        sys.stdout.flush()
        sys.stdin.read()
