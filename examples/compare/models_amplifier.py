"""The models of the programs with `amplifier`: the mock, and scripts for it."""

from collections.abc import Mapping
from typing import TypeAlias

Model: TypeAlias = dict[str, object]

# Calls the tool whose name is in the prompt, then says what it returned.
CALLS_TOOLS: Model = {"module": "provider-mock", "config": {"stream": True}}
# Repeats the prompt after a while.
SLOW: Model = {"module": "provider-mock", "config": {"mode": "echo", "delay_seconds": 0.1}}


def scripted(*steps: str | dict[str, object]) -> Model:
    """Return a model that answers with these steps."""
    return {"module": "provider-mock", "config": {"script": list(steps)}}


def calls(name: str, *arguments: Mapping[str, object]) -> dict[str, object]:
    """Return a step that calls a tool once for each of these arguments."""
    return {"tool_calls": [{"name": name, "arguments": dict(each)} for each in arguments]}
