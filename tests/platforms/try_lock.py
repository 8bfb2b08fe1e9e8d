"""Says whether the file that it is given can be locked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from amplifier_sandbox.platforms.locks import try_lock

if __name__ == "__main__":
    fd = os.open(Path(sys.argv[1]), os.O_RDWR | os.O_CREAT)
    sys.stdout.write(str(try_lock(fd)))
