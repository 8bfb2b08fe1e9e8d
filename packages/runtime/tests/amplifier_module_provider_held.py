"""The model and the tools of a payment as a module, for workers that are started as commands.

Config: `folder` of the trace; `hold_at`, a place to wait at for the file `release` in the folder;
`poison`, whether paying kills the worker.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from runtime_stage import PaymentModel, Trace, TracedTool

from amplifier_sandbox.platforms.signals import KILL

__amplifier_module_type__ = "provider"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    config = config or {}
    folder, session_id = Path(config["folder"]), coordinator.session_id
    trace = Trace(folder / "trace")

    async def reached(place: str) -> None:
        trace.note("reached", session_id, place)
        if config.get("poison") and place == "begin pay":
            os.kill(os.getpid(), KILL)
        while place == config.get("hold_at") and not (folder / "release").exists():  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.02)

    await coordinator.mount("providers", PaymentModel(trace, session_id, reached))
    for name, effect in (("price", "pure"), ("pay", "unsafe"), ("check", "pure")):
        await coordinator.mount("tools", TracedTool(name, effect, trace, session_id, reached))
