"""A program in a real terminal: started in tmux, typed into, and read off its screen."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_POLL_SECONDS = 0.05


class ScreenTimeoutError(AssertionError):
    """What was waited for did not come; the message has what was on the screen instead."""


class TmuxScreen:
    """One program on one screen, on a tmux server of its own."""

    def __init__(
        self,
        command: list[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        columns: int = 80,
        rows: int = 30,
    ) -> None:
        self._command, self._folder = command, folder
        self._environment, self._size = dict(environment), (columns, rows)
        # The socket's path must be short, wherever the tests' own folders lie.
        self._sockets = tempfile.TemporaryDirectory(prefix="tmux-")

    def __enter__(self) -> Self:
        columns, rows = self._size
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        program = shlex.join(["exec", "env", *variables, *self._command])
        config = Path(self._sockets.name) / "tmux.conf"
        config.write_text(
            "set -g remain-on-exit on\nset -g history-limit 10000\nset -g status off\n"
            "set -sg escape-time 0\nset -g default-shell /bin/sh\n"
            "set -g default-terminal tmux-256color\n"
        )
        where = ["-x", str(columns), "-y", str(rows), "-c", str(self._folder)]
        self._tmux("-f", str(config), "new-session", "-d", "-s", "main", *where, program)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tmux("kill-server", check=False)
        self._sockets.cleanup()

    @property
    def pid(self) -> int:
        """The process of the program."""
        return int(self._tmux("display-message", "-p", "-t", "main", "#{pane_pid}"))

    @property
    def title(self) -> str:
        """The title that the program has set."""
        return self._tmux("display-message", "-p", "-t", "main", "#{pane_title}").strip()

    def keep_bytes(self, path: Path) -> None:
        """Append every byte that the program writes from now on to a file."""
        self._tmux("pipe-pane", "-t", "main", f"cat >> {shlex.quote(str(path))}")

    @property
    def is_dead(self) -> bool:
        """Whether the program has ended."""
        return self._tmux("display-message", "-p", "-t", "main", "#{pane_dead}").strip() == "1"

    def type(self, text: str) -> None:
        """Type text as it is."""
        self._tmux("send-keys", "-t", "main", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names, such as Enter, Escape or M-Enter."""
        self._tmux("send-keys", "-t", "main", *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        self._tmux("resize-window", "-t", "main", "-x", str(columns), "-y", str(rows))

    def text(self, *, scrollback: bool = False, colors: bool = False) -> str:
        """Return what is on the screen, without empty lines at its end."""
        options = [*(["-S", "-"] if scrollback else []), *(["-e"] if colors else [])]
        return self._tmux("capture-pane", "-p", "-t", "main", *options).rstrip("\n")

    def wait_for(self, *wanted: str, absent: str = "", seconds: float = 20.0) -> str:
        """Wait until all texts are on the screen and `absent` is not, and return the screen."""

        def is_there(text: str) -> bool:
            return all(each in text for each in wanted) and not (absent and absent in text)

        return self.wait_until(is_there, f"{wanted} without {absent!r}", seconds)

    def wait_until(self, holds: Callable[[str], bool], what: str, seconds: float = 20.0) -> str:
        """Wait until the screen is as wanted, and return it."""
        end = time.monotonic() + seconds
        while not holds(text := self.text()):
            if time.monotonic() > end:
                raise ScreenTimeoutError(f"no {what} within {seconds:g} s; on the screen:\n{text}")
            time.sleep(_POLL_SECONDS)
        return text

    def wait_for_end(self, seconds: float = 10.0) -> None:
        """Wait until the program has ended."""
        end = time.monotonic() + seconds
        while not self.is_dead:
            if time.monotonic() > end:
                raise ScreenTimeoutError(f"still running after {seconds:g} s:\n{self.text()}")
            time.sleep(_POLL_SECONDS)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        socket = Path(self._sockets.name) / "socket"
        # tmux starts programs by the user's shell, which for some users is one that refuses.
        environment = {**os.environ, "TMUX": "", "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh"}
        done = subprocess.run(
            ["tmux", "-u", "-S", str(socket), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"tmux {shlex.join(arguments)}: {done.stderr}")
        return done.stdout
