"""Workers in processes of their own, forked from one that has imported what they need."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import pytest


class WarmWorker:
    """One process, which runs `main` of a program."""

    def __init__(self, main: Callable[..., None], *arguments: Any) -> None:
        if sys.platform == "win32":
            pytest.skip("Windows has no fork server")
        forks = multiprocessing.get_context("forkserver")
        forks.set_forkserver_preload(["children_program", "signals_program", "worker_program"])
        self._process: BaseProcess = forks.Process(target=main, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, None while it runs; less than zero is the signal that ended it."""
        return self._process.exitcode

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = 20.0) -> int | None:
        """Wait until it ends by itself; returns how it did."""
        self._process.join(seconds)
        return self.exit_code

    def kill(self) -> None:
        """Kill it, if it still runs, and wait until it is gone."""
        self._process.kill()
        self._process.join()
