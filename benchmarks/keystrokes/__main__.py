"""Count the keys that answering questions takes, in a real terminal with a scripted model.

Run it with the Python of the version to measure: `python benchmarks/keystrokes`. `--digits` answers
as versions before the letters had to be answered.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(_ROOT / "tests"), str(_ROOT / "tools")]

from end_to_end.chat_runs import ChatRun  # noqa: E402 - found by the path above
from end_to_end.model_server import ModelServer, Said  # noqa: E402 - as above
from tmux_screen import TmuxScreen  # noqa: E402 - as above

_CODE = "def double(x):\n    return x + x + x\n"
_TEST = ("bash", {"command": "python3 -c 'import code_; assert code_.double(2) == 4'"})
_EDIT = (
    "edit_file",
    {"file_path": "code_.py", "old_string": "x + x + x", "new_string": "x + x"},
)
_REASON = "use uv instead"
_CHECK = ("bash", {"command": "python3 -m unittest -q"})
_EDITS = [
    ("edit_file", {"file_path": "code_.py", "old_string": old, "new_string": new})
    for old, new in (("x + x + x", "x + x"), ("x + x", "2 * x"))
]
_TURNS = [
    [Said(calls=[_CHECK]), Said(calls=[edit]), Said(calls=[_CHECK]), Said([f"Turn {number} done."])]
    for number, edit in enumerate(_EDITS, start=1)
]


class Count(NamedTuple):
    """The keys of a task without its text, and the model calls until the model has read all."""

    keys: int
    requests: int


class Keyboard:
    """Presses keys and counts them; `text` is not counted."""

    def __init__(self, screen: TmuxScreen, server: ModelServer) -> None:
        self.screen = screen
        self.server = server
        self.count = 0

    def press(self, key: str) -> None:
        """Press one key."""
        self.count += 1
        self.screen.press(key)

    def text(self, text: str) -> None:
        """Type text that any way of saying it needs."""
        self.screen.type(text)

    def asked(self, what: str) -> None:
        """Wait for a question that can be answered."""
        self.screen.wait_for(what, "1 Allow once")
        # The options are faint and have no numbers until keys answer.
        self.screen.wait_until(lambda text: "..." not in text.split("─")[0][-60:], "options")


def _fix_and_test(keys: Keyboard, allow: str) -> None:
    for what in ("python3 -c", "code_.py", "python3 -c"):
        keys.asked(what)
        keys.press(allow)
        keys.screen.wait_for("┗ Allow once")
        keys.screen.press("C-l")
    keys.screen.wait_for("Done.", "ready")


def _keys_of_turn(keys: Keyboard, allow: str, end: str) -> int:
    """Answer everything that a turn asks about, and return how many keys that took."""
    before = keys.count

    def is_ready(text: str) -> bool:
        # The options are faint and have no numbers until keys answer.
        is_asked = "1 Allow once" in text and "..." not in text.split("─")[0][-60:]
        return is_asked or (end in text and "ready" in text)

    while "1 Allow once" in keys.screen.wait_until(is_ready, "question or end"):
        keys.press(allow)
        keys.screen.wait_until(lambda text: "1 Allow once" not in text, "answer")
    return keys.count - before


def _lasting_turns(*, mode: str, allow: str) -> list[int]:
    """Return the keys of two turns that test, edit and test again, in a sandbox."""
    script = [said for turn in _TURNS for said in turn]
    options = ["--mode", mode] if mode else []
    with tempfile.TemporaryDirectory(prefix="k") as folder, ModelServer(script) as server:
        run = ChatRun(Path(folder), server, sandbox="required")
        (run.project / "code_.py").write_text(_CODE, "utf-8")
        with run.chat(*options, "do", "it") as screen:
            keys = Keyboard(screen, server)
            first = _keys_of_turn(keys, allow, "Turn 1 done.")
            keys.text("again")
            screen.press("Enter")
            return [first, _keys_of_turn(keys, allow, "Turn 2 done.")]


def _allow(keys: Keyboard, allow: str) -> None:
    keys.asked("python3 -c")
    keys.press(allow)
    keys.screen.wait_for("Done.", "ready")


def _deny_with_digits(keys: Keyboard) -> None:
    keys.asked("python3 -c")
    keys.press("3")
    # The model continues without the reason, which is a prompt of its own.
    keys.screen.wait_for("Done.", "ready")
    keys.text(_REASON)
    keys.press("Enter")
    keys.screen.wait_for("All right.", "ready")


def _deny_with_reason(keys: Keyboard) -> None:
    keys.asked("python3 -c")
    keys.press("r")
    keys.text(_REASON)
    keys.press("Enter")
    keys.screen.wait_for("Done.", "ready")


def _change_with_digits(keys: Keyboard) -> None:
    keys.asked("python3 -c")
    keys.press("3")
    keys.screen.wait_for("Done.", "ready")
    keys.text("print the version instead")
    keys.press("Enter")
    keys.asked("python3 -VV")
    keys.press("1")
    keys.screen.wait_for("All right.", "ready")


def _change(keys: Keyboard) -> None:
    keys.asked("python3 -c")
    keys.press("e")
    keys.screen.wait_for("Enter runs it")
    keys.text(" # changed")
    keys.press("Enter")
    keys.screen.wait_for("Done.", "ready")


def _measure(script: list[Said], work: Callable[[Keyboard], None]) -> Count:
    with tempfile.TemporaryDirectory(prefix="k") as folder, ModelServer(script) as server:
        run = ChatRun(Path(folder), server)
        (run.project / "code_.py").write_text(_CODE, "utf-8")
        with run.chat("do", "it") as screen:
            keys = Keyboard(screen, server)
            work(keys)
        sent = [str(each["messages"]) for each in server.requests]
        read = [number for number, each in enumerate(sent, start=1) if _REASON in each]
        return Count(keys.count, read[0] if read else len(sent))


def main() -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--digits", action="store_true", help="answer by digits alone")
    digits: bool = parser.parse_args().digits
    allow = "1" if digits else "Enter"
    done = Said(["Done."])
    test = Said(calls=[_TEST])
    fix = _measure([test, Said(calls=[_EDIT]), test, done], lambda keys: _fix_and_test(keys, allow))
    once = _measure([test, done], lambda keys: _allow(keys, allow))
    deny = _deny_with_digits if digits else _deny_with_reason
    said = _measure([test, done, Said(["All right."])], deny)
    again = Said(calls=[("bash", {"command": "python3 -VV > version"})])
    change = _change_with_digits if digits else _change
    changed = _measure([test, done, again, Said(["All right."])], change)
    counts = {
        "fix and test": fix,
        "allow": once,
        "deny with a reason": said,
        "change the command": changed,
    }
    for name, count in counts.items():
        print(f"{name}: {count.keys} keys, {count.requests} model calls")
    # Of versions with digits, 2 is the only lasting answer, and there are no modes.
    lasting = {"": "2"} if digits else {"": "a", "edits": "a"}
    for mode, allow in lasting.items():
        first, second = _lasting_turns(mode=mode, allow=allow)
        where = f" in the mode {mode}" if mode else ""
        print(f"fix and test with lasting answers{where}: {first} keys, then {second}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
