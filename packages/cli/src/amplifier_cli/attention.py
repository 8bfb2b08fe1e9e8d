"""Draw the user's attention: the bell, the title of the terminal, a note on the desktop.

A desktop note is OSC 777 for terminals that know only that (VTE, such as GNOME Terminal; rxvt;
foot), else OSC 9 (iTerm2, WezTerm, Ghostty, kitty). Both would be two notes on some terminals, and
those that know neither ignore them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from amplifier_cli.render.plain import one_line

# After this time without a key, the end of a turn is worth a note.
_LONG_SECONDS = 10.0
_LONGEST = 100
# Separates the fields of OSC sequences.
_SEPARATORS = re.compile(r"[;\\]")
_WITHOUT_TITLE = ("", "dumb", "unknown", "linux", "eterm-color")
_ONLY_777 = ("rxvt", "foot")
_SAVE_TITLE = "\x1b[22;2t"
_RESTORE_TITLE = "\x1b[23;2t"


class Attention:
    """Writes to one terminal; `wanted` can have `bell`, `title` and `notes` as false.

    `write` gets whole escape sequences. Texts are made of visible characters and are short.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        wanted: Mapping[str, Any],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._write = write
        self._wanted = wanted
        self._environment = environment
        self._title: str | None = None

    def call(self, text: str) -> None:
        """Ring the bell, and show a note on the desktop."""
        if self._is_wanted("bell"):
            self._write("\a")
        if self._is_wanted("notes") and self._knows_sequences:
            self._write(self._for_multiplexer(self._note(_safe(text))))

    def tell_end(self, attended_at: float) -> None:
        """Say that the work has ended, if the user has probably turned to something else.

        `attended_at` is when the user was last there, on the monotonic clock.
        """
        if monotonic() - attended_at > _LONG_SECONDS:
            self.call("The turn has ended.")

    def title(self, text: str) -> None:
        """Set the title of the terminal."""
        if not self._is_wanted("title") or not self._knows_sequences or text == self._title:
            return
        saved = _SAVE_TITLE if self._title is None else ""
        self._title = text
        self._write(f"{saved}\x1b]2;{_safe(text)}\a")

    def restore_title(self) -> None:
        """Set the title that the terminal had; without one if it does not know it any more."""
        if self._title is not None:
            self._write(f"\x1b]2;\a{_RESTORE_TITLE}")
            self._title = None

    def _is_wanted(self, kind: str) -> bool:
        return self._wanted.get(kind) is not False

    @property
    def _knows_sequences(self) -> bool:
        return self._environment.get("TERM", "") not in _WITHOUT_TITLE

    def _note(self, text: str) -> str:
        term = self._environment.get("TERM", "")
        if self._environment.get("VTE_VERSION") or term.startswith(_ONLY_777):
            return f"\x1b]777;notify;amplifier;{text}\a"
        return f"\x1b]9;amplifier: {text}\a"

    def _for_multiplexer(self, sequence: str) -> str:
        """Let tmux pass a sequence on that it does not know itself."""
        if not self._environment.get("TMUX"):
            return sequence
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"


def _safe(text: str) -> str:
    line = _SEPARATORS.sub(",", one_line(text))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
