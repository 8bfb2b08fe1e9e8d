"""Takes from a bucket as fast as it may for some seconds; prints how often.

Usage: rate_program.py URL FOLDER BUCKET SECONDS. It begins when FOLDER/go appears.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from amplifier_runtime.database.database import Database
from amplifier_runtime.limits.rates import Bucket


async def main(url: str, folder: Path, name: str, seconds: float) -> None:
    database = Database(url, connections=2)
    bucket, taken = Bucket(database, name), 0
    (folder / f"ready-{time.monotonic_ns()}").touch()
    while not (folder / "go").exists():  # noqa: ASYNC110 - a file
        await asyncio.sleep(0.01)
    until = time.monotonic() + seconds

    async def take() -> None:
        nonlocal taken
        while True:
            await bucket.take(1)
            if time.monotonic() > until:
                return
            taken += 1

    await asyncio.gather(*(take() for _ in range(8)))
    print(taken)  # noqa: T201 - a program talks to its caller
    database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
