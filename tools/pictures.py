"""Makes the pictures of `docs/pictures` from one real session in a real terminal."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from screen_svg import draw
from tmux_screen import TmuxScreen

_COLUMNS, _ROWS = 88, 44
# What tmux writes below a program that has ended, and the empty lines between.
_PANE_IS_DEAD = re.compile(r"\s*(\x1b\[[0-9;]*m)*Pane is dead.*\Z", re.DOTALL)
_NOTES = "# Notes\n\n- [ ] write a test\n"
_CODE = """\
from pathlib import Path


def open_tasks(path: Path) -> list[str]:
    return [each for each in path.read_text().splitlines() if each.startswith("- [ ]")]
"""
_ANSWER = """\
The project is a **to-do list** with two files:

1. `notes.md` says what is to be done: *write a test*
2. `todo.py` finds what is still open:

```python
def open_tasks(path: Path) -> list[str]:
    return [each for each in lines_of(path) if each.startswith("- [ ]")]
```

Shall I write the test?"""
_SCRIPT = [
    {
        "text": "I look at the folder and at the notes.",
        "tool_calls": [
            {"name": "list_directory", "arguments": {"path": "."}},
            {"name": "read_file", "arguments": {"file_path": "notes.md"}},
        ],
        "usage": {"cost_usd": "0.0132"},
    },
    {"text": _ANSWER, "usage": {"cost_usd": "0.0141"}},
    {
        "text": "I write it.",
        "tool_calls": [
            {
                "name": "write_file",
                "arguments": {"file_path": "test_todo.py", "content": "def test_open_tasks(): ..."},
            }
        ],
        "usage": {"cost_usd": "0.0147"},
    },
    {
        "text": "Somebody else is to look at it.",
        "tool_calls": [
            {"name": "task", "arguments": {"agent": "reviewer", "prompt": "Is the test good?"}},
            {"name": "grep", "arguments": {"pattern": "open_tasks"}},
        ],
        "usage": {"cost_usd": "0.0150"},
    },
    {"text": "`test_todo.py` is written and reviewed.", "usage": {"cost_usd": "0.0152"}},
    {
        "text": "One line changes.",
        "tool_calls": [
            {
                "name": "edit_file",
                "arguments": {
                    "file_path": "notes.md",
                    "old_string": "- [ ] write a test",
                    "new_string": "- [x] write a test",
                },
            }
        ],
        "usage": {"cost_usd": "0.0154"},
    },
    {"text": "Ticked off in `notes.md`.", "usage": {"cost_usd": "0.0155"}},
]
_REVIEW = [
    {
        "tool_calls": [{"name": "read_file", "arguments": {"file_path": "test_todo.py"}}],
        "usage": {"cost_usd": "0.0061"},
    },
    {"text": "It tests what it says, and nothing else.", "usage": {"cost_usd": "0.0064"}},
]
_BUNDLE = """\
bundle: {{ name: picture }}
includes:
  - bundle: default
providers:
  - module: provider-mock
    config: {{ script: {script}, delay_seconds: 0.9, stream: true, model: scripted-model }}
tools:
  - module: tool-filesystem
    config: {{ checkpoint_dir: "{home}/checkpoints" }}
hooks:
  - module: hooks-approval
    config: {{ grants_file: "{home}/grants.json" }}
  - module: hooks-budget
    config: {{ usd: "1.00", prices: {{ mock: {{ input: 3, output: 15 }} }} }}
agents:
  reviewer:
    description: Looks at what others wrote.
    instruction: Say what is wrong, in one sentence.
    providers:
      - module: provider-mock
        config: {{ script: {review}, delay_seconds: 0.5, stream: true, model: small-model }}
"""


class Stage:
    """A person's home and one project in it; what is shown of both is `~`."""

    def __init__(self, folder: Path) -> None:
        self._home, self._project = folder / ".amplifier", folder / "todo"
        self._home.mkdir()
        self._project.mkdir()
        self.write("notes.md", _NOTES)
        self.write("todo.py", _CODE)
        bundle = folder / "picture.yaml"
        script, review = json.dumps(_SCRIPT), json.dumps(_REVIEW)
        bundle.write_text(_BUNDLE.format(script=script, review=review, home=self._home))
        self._folder, self._bundle = folder, bundle

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self._project / name).write_text(text, encoding="utf-8")

    def chat(self) -> str:
        """Have the conversation, and return the screen with its first question."""
        with self._screen("chat", "-b", str(self._bundle), rows=_ROWS) as screen:
            screen.wait_for("ready")
            screen.press("C-l")
            screen.type("what is in this folder?")
            screen.press("Enter")
            screen.wait_for("Shall I write the test?", "ready")
            screen.type("yes please")
            screen.press("Enter")
            screen.wait_for("1 Allow once")
            screen.type("then tick it off in the notes")
            screen.press("Enter")
            screen.wait_for("next", "tick it off", "left", absent="clear the line")
            picture = self._shown(screen)
            screen.press("1")
            screen.wait_for("is written and reviewed", "edit_file", "1 Allow once", "left")
            screen.press("1")
            screen.wait_for("Ticked off in", "ready")
            screen.type("/quit")
            screen.press("Enter")
            screen.wait_for_end()
        return picture

    def command(self, *arguments: str) -> str:
        """Run a command, and return everything that it printed."""
        with self._screen(*arguments, rows=200) as screen:
            screen.wait_for_end(seconds=30)
            return _PANE_IS_DEAD.sub("", self._shown(screen, scrollback=True))

    def _screen(self, *arguments: str, rows: int) -> TmuxScreen:
        return TmuxScreen(
            [sys.executable, "-m", "amplifier_cli", *arguments],
            folder=self._project,
            environment=self._environment(),
            columns=_COLUMNS,
            rows=rows,
        )

    def _environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self._folder),
            "AMPLIFIER_HOME": str(self._home),
            "PATH": os.environ["PATH"],
            "PYTHONUTF8": "1",
        }

    def _shown(self, screen: TmuxScreen, *, scrollback: bool = False) -> str:
        """Return the screen as that of a person whose home this is."""
        text = screen.text(colors=True, scrollback=scrollback).strip("\n")
        return text.replace(str(self._folder), "~").replace(sys.prefix, "~/amplifier/.venv")


def make(folder: Path) -> None:
    """Write all pictures into a folder."""
    with tempfile.TemporaryDirectory(prefix="p") as home:
        stage = Stage(Path(home))
        screens = {"chat": stage.chat()}
        # The doctor is to find something.
        stage.write("AGENTS.md", "Answer briefly.\n")
        for words in ("session show last", "explain last", "top last", "doctor"):
            screens[words] = stage.command(*words.split())
        stage.command("trace", "last", "--svg", str(folder.resolve() / "trace.svg"))
    for words, screen in screens.items():
        path = folder / f"{words.removesuffix(' last').replace(' ', '-')}.svg"
        title = f"amplifier {words}"
        path.write_text(draw(screen, columns=_COLUMNS, title=title), encoding="utf-8")


def main() -> int:
    """Write the pictures to the folder that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/pictures"))
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    make(folder)
    for path in sorted(folder.glob("*.svg")):
        print(f"{path}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
