"""Run a mount plan: python examples/run_plan.py examples/providers/anthropic.json "Hello"."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierError, AmplifierSession, LLMError


async def main(plan: dict[str, Any], prompt: str) -> None:
    async with AmplifierSession(plan) as session:
        print(await session.execute(prompt))


if len(sys.argv) != 3:
    sys.exit(__doc__)
plan_file, prompt = sys.argv[1:]
try:
    asyncio.run(main(json.loads(Path(plan_file).read_text(encoding="utf-8")), prompt))
except (AmplifierError, LLMError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
