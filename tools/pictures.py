"""Makes the pictures of `docs/pictures` from one real session in a real terminal."""

from __future__ import annotations

import argparse
import json
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
_CODE = """\
from decimal import Decimal


def total(cart: list[tuple[str, Decimal, int]]) -> Decimal:
    return sum((price for _, price, _ in cart), Decimal(0))
"""
_TEST = """\
import unittest
from decimal import Decimal

from cart import total


class TestTotal(unittest.TestCase):
    def test_two_of_a_thing_cost_twice_as_much(self):
        self.assertEqual(total([("tea", Decimal("3.50"), 2)]), Decimal("7.00"))
"""
_RUN_TESTS = {"name": "bash", "arguments": {"command": "python3 -m unittest"}}
_FOUND = """\
The test is right and the code is wrong: `total` adds the **price** of each line and never looks at
its **quantity**, so two teas cost as much as one. One line changes:"""
_FIXED = """\
Fixed. `total` multiplies each price by its quantity now:

```python
return sum((price * count for _, price, count in cart), Decimal(0))
```

The test that failed passes, and nothing else changed."""
_SCRIPT = [
    {
        "text": "I run the tests first.",
        "tool_calls": [_RUN_TESTS],
        "usage": {"cost_usd": "0.0132"},
    },
    {
        "text": "3.50 instead of 7.00 for two. I look at the code.",
        "tool_calls": [{"name": "read_file", "arguments": {"file_path": "cart.py"}}],
        "usage": {"cost_usd": "0.0141"},
    },
    {
        "text": _FOUND,
        "tool_calls": [
            {
                "name": "edit_file",
                "arguments": {
                    "file_path": "cart.py",
                    "old_string": "price for _, price, _ in cart",
                    "new_string": "price * count for _, price, count in cart",
                },
            }
        ],
        "usage": {"cost_usd": "0.0147"},
    },
    {"text": "Now the tests again.", "tool_calls": [_RUN_TESTS], "usage": {"cost_usd": "0.0149"}},
    {"text": _FIXED, "usage": {"cost_usd": "0.0150"}},
    {
        "text": "Somebody else is to look at it.",
        "tool_calls": [
            {"name": "task", "arguments": {"agent": "reviewer", "prompt": "Is the change good?"}},
            {"name": "grep", "arguments": {"pattern": "total"}},
        ],
        "usage": {"cost_usd": "0.0152"},
    },
    {"text": "The reviewer has no objections.", "usage": {"cost_usd": "0.0155"}},
]
_REVIEW = [
    {
        "tool_calls": [{"name": "read_file", "arguments": {"file_path": "cart.py"}}],
        "usage": {"cost_usd": "0.0061"},
    },
    {"text": "It is right, and it is the smallest change.", "usage": {"cost_usd": "0.0064"}},
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
    """A user's home and one project in it; what is shown of both is `~`."""

    def __init__(self, folder: Path) -> None:
        self._home, self._project = folder / ".amplifier", folder / "shop"
        self._home.mkdir()
        self._project.mkdir()
        self.write("cart.py", _CODE)
        self.write("test_cart.py", _TEST)
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
            screen.type("the total of a cart is wrong, please fix it")
            screen.press("Enter")
            screen.wait_for("python3 -m unittest", "1 Allow once")
            screen.press("1")
            screen.wait_for("Allow this edit of cart.py?", "1 Allow once")
            screen.type("then have it reviewed")
            screen.press("Enter")
            screen.wait_for("next", "have it reviewed", "1 Allow once")
            picture = self._shown(screen)
            screen.press("1")
            screen.wait_for("Now the tests again.", "python3 -m unittest", "1 Allow once")
            screen.press("1")
            screen.wait_for("The reviewer has no objections.", "ready")
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
            # Not the path of whoever runs this, which doctor would show.
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONUTF8": "1",
        }

    def _shown(self, screen: TmuxScreen, *, scrollback: bool = False) -> str:
        """Return the screen as that of a user whose home this is."""
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
