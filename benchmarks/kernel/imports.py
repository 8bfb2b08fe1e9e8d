"""The CPU time of `import amplifier_core` against the libraries it cannot do without."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.kernel.measure import Figure

if sys.platform != "win32":
    import resource

KERNEL = (
    "import amplifier_core as kernel; kernel.AmplifierSession, kernel.HookRegistry, "
    "kernel.ModuleLoader, kernel.ChatRequest, kernel.HookResult, kernel.ToolResult"
)
"""The import, and a look at what it promises: a name put off until it is used counts too."""
PLAIN = "from pydantic import BaseModel"
FLOOR = (
    "import asyncio, json, uuid, logging, datetime; from pydantic import BaseModel, ConfigDict, "
    "Field, field_validator, field_serializer, model_serializer"
)
MIN_ROUNDS = 5
ROUNDS_PER_SECOND = 7


def measure(subject: str, references: dict[str, str], *, budget: float) -> dict[str, Figure]:
    """Compare the start of an interpreter that runs `subject` with each of the `references`.

    The interpreters start in turn, each in this interpreter's own environment.
    """
    statements = {"subject": subject, **references}
    for statement in statements.values():
        _cpu_ms(statement)  # the first start also compiles
    rounds = [
        {name: _cpu_ms(statement) for name, statement in statements.items()}
        for _ in range(max(MIN_ROUNDS, int(budget * ROUNDS_PER_SECOND)))
    ]
    own = min(costs["subject"] for costs in rounds)
    return {
        name: Figure(
            value=statistics.median(costs["subject"] / costs[name] for costs in rounds),
            bare=min(costs[name] for costs in rounds),
            detail={"ms": own, "rounds": len(rounds)},
        )
        for name in references
    }


def _cpu_ms(statement: str) -> float:
    assert sys.platform != "win32", "Windows does not add up the CPU time of children"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Isolated: neither the folder this runs in nor the environment adds to the search path.
    subprocess.run([sys.executable, "-I", "-c", statement], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1000
