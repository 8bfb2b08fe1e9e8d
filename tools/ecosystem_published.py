"""Read one bundle file with the published loader; run by a Python that has it, not by ours.

`python ecosystem_published.py FILE FOLDER...` prints `read`, or ends with the loader's own error.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r"git\+https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?(?:@[^#]*)?(#.*)?")


def _local(uri: str) -> str | None:
    """Return the checkout that stands for an address, in the form that the loader takes."""
    named = _ADDRESS.fullmatch(uri)
    if named is None:
        return None
    for folder in sys.argv[2:]:
        checkout = Path(folder, f"{named[1]}+{named[2]}")
        if checkout.is_dir():
            return f"file://{checkout}{named[3] or ''}"
    return None


async def _read() -> None:
    # Not the package of that name in this repository.
    loader: Any = importlib.import_module("amplifier_foundation.registry")
    registry = loader.BundleRegistry(include_source_resolver=_local)
    await registry.load(f"file://{sys.argv[1]}")
    sys.stdout.write("read\n")


if __name__ == "__main__":
    asyncio.run(_read())
