"""Run under the mask of Windows: prints what each facility that Windows lacks is refused with."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_kit.writer_lock import WriterLock
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.network.session_network import SessionNetwork
from amplifier_sandbox.ownership import exposure_of
from amplifier_sandbox.platforms.process_end import end_of
from amplifier_sandbox.platforms.process_table import process_table
from amplifier_sandbox.processes.sandbox import Sandbox


def main() -> None:
    """Call each of them."""
    folder = Path(tempfile.mkdtemp())
    held = WriterLock.acquire(folder / "lock")
    calls: dict[str, Callable[[], Any]] = {
        "sandbox": lambda: Sandbox.detect().command(["true"], workspace=folder),
        "network": SessionNetwork.create,
        "files": lambda: Root(folder),
        "postgres": LocalPostgres,
        "processes": process_table,
        "process end": lambda: end_of(1),
    }
    told: dict[str, str] = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:  # noqa: BLE001 - which one it is, is what is printed
            told[name] = f"{type(error).__name__}: {error}"
    exposure = exposure_of(folder)
    told["exposure"] = "" if exposure is None else exposure.why
    held.release()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
