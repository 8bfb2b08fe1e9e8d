"""A recorded task: a repository, what the user wants, what the model does, and what is then true.

Each is a file in `recorded/`:

    prompt: what the user types
    files: the text of each file in the project, by its path
    prepare: a shell script that the user ran before, outside of any sandbox
    folder: the folder below the project that the user is in
    repository: false if the project is not under git
    agents: the calls of each sub-agent, by its name
    calls: what the model does, one step each
    done: a shell script that fails unless the task is done

A call is the name of a tool with its arguments (for `bash`, a text is the command), and `expect`, a
text that its result has to contain. `together` is a list of calls that one step makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parent / "recorded"
# A page that the model reads; each run serves it at an address of its own.
PAGES = "{pages}"


@dataclass(frozen=True)
class Call:
    """One call of a tool, and a part of what it returns."""

    tool: str
    arguments: dict[str, Any]
    expect: str = ""


@dataclass(frozen=True)
class Task:
    """One task."""

    name: str
    prompt: str
    steps: list[list[Call]]
    done: str
    files: dict[str, str] = field(default_factory=dict[str, str])
    prepare: str = ""
    folder: str = "."
    repository: bool = True
    agents: dict[str, list[list[Call]]] = field(default_factory=dict[str, list[list[Call]]])

    def calls(self) -> Iterator[Call]:
        """Return all calls of the model in their order, without those of sub-agents."""
        for step in self.steps:
            yield from step


def task_names() -> list[str]:
    """Return the names of all tasks, in their order."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def read_task(name: str) -> Task:
    """Return a recorded task."""
    data = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text("utf-8"))
    steps = [_step(each) for each in data.pop("calls")]
    agents = {
        agent: [_step(each) for each in calls] for agent, calls in data.pop("agents", {}).items()
    }
    return Task(name=name, steps=steps, agents=agents, **data)


def script_of(steps: list[list[Call]], pages: str) -> list[Any]:
    """Return the script of the mock model: one answer for each step, and a last one."""
    return [
        *(
            {
                "tool_calls": [
                    {"name": call.tool, "arguments": _with_pages(call.arguments, pages)}
                    for call in step
                ]
            }
            for step in steps
        ),
        "Done.",
    ]


def _step(data: dict[str, Any]) -> list[Call]:
    return [_call(each) for each in data.get("together", [data])]


def _call(data: dict[str, Any]) -> Call:
    expect = data.pop("expect", "")
    ((tool, given),) = data.items()
    if tool == "bash" and isinstance(given, str):
        given = {"command": given}
    return Call(tool, given or {}, expect)


def _with_pages(arguments: dict[str, Any], pages: str) -> dict[str, Any]:
    return {
        name: value.replace(PAGES, pages) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
