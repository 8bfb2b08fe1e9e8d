"""A chat as a person has it: the real command in a real terminal, with a model behind the wire."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from end_to_end.model_server import ModelServer
from tmux_screen import TmuxScreen

SCREENS = Path(__file__).parents[2] / "packages" / "cli" / "tests" / "chat" / "screens"
_WRITE = "AMPLIFIER_WRITE_SCREENS"
_CHANGING = (
    # What a machine has of a sandbox is not the chat's business.
    (re.compile(r"^! tool-bash: .*\n(?:  .*\n)*", re.MULTILINE), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "SOME-DAY"),
    (re.compile(r"\b\d\d:\d\d\b"), "SOME-TIME"),
    (re.compile(r"\b\d+(\.\d)?s\b"), "Ns"),
    (re.compile(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"), "⠋"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "SESSION1"),
    (re.compile(r"(?<=\S) {3,}(?=\S)"), "   "),
)
_BUNDLE = """\
---
bundle:
  name: chat-run
session:
  orchestrator: {{ module: loop-streaming, config: {{ heartbeat_seconds: 0.2 }} }}
  context: {{ module: context-simple }}
providers:
  - module: provider-chat-completions
    config: {{ base_url: "{url}", pricing: {{ input: 1, output: 2 }}, max_retries: 0 }}
tools:
  - module: tool-filesystem
    config: {{ checkpoint_dir: "{home}/checkpoints" }}
  - module: tool-bash
    config: {{ sandbox: "{sandbox}", ask: false }}
hooks:
  - module: hooks-approval
    config: {{ grants_file: "{home}/grants.json" }}
---
You are at work in a test.
"""


class ChatRun:
    """One person's home and project, and the chats they open in it."""

    def __init__(
        self, folder: Path, server: ModelServer, sandbox: str = "off: run commands unprotected"
    ) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.project.mkdir(parents=True)
        self.home.mkdir()
        self._bundle = folder / "chat-run.md"
        self._bundle.write_text(_BUNDLE.format(url=server.url, home=self.home, sandbox=sandbox))

    def chat(
        self, *arguments: str, columns: int = 80, rows: int = 40, **variables: str
    ) -> AbstractContextManager[TmuxScreen]:
        """Open a chat in a terminal of its own."""
        chat = ("chat", "-b", str(self._bundle))
        return self.command(*chat, *arguments, columns=columns, rows=rows, **variables)

    @contextmanager
    def command(
        self, *arguments: str, columns: int = 80, rows: int = 40, **variables: str
    ) -> Generator[TmuxScreen]:
        """Run `amplifier` in a terminal of its own."""
        environment = {
            "HOME": str(self.home),
            "AMPLIFIER_HOME": str(self.home),
            "PATH": os.environ["PATH"],
            **variables,
        }
        with TmuxScreen(
            [sys.executable, "-m", "amplifier_cli", *arguments],
            folder=self.project,
            environment=environment,
            columns=columns,
            rows=rows,
        ) as screen:
            yield screen


def normalised(screen: str) -> str:
    """Return a screen without what differs from run to run."""
    screen += "\n"
    for pattern, stand_in in _CHANGING:
        screen = pattern.sub(stand_in, screen)
    return "\n".join(line.rstrip() for line in screen.split("\n")).strip("\n") + "\n"


def assert_looks_like(screen: str, name: str) -> None:
    """Compare a screen with the one that is kept; `AMPLIFIER_WRITE_SCREENS=1` keeps it anew."""
    path, shown = SCREENS / f"{name}.txt", normalised(screen)
    if os.environ.get(_WRITE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown)
    assert shown == path.read_text()


def conversation(screen: str) -> list[str]:
    """Return the lines above the input line, without empty ones."""
    lines = screen.split("\n")
    rules = [number for number, line in enumerate(lines) if line and set(line) == {"─"}]
    return [line.rstrip() for line in lines[: rules[-1]] if line.strip()]
