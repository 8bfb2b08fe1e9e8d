"""Which source files and functions a run enters, told by a process that is traced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

_TRACED = Path(__file__).with_name("shape_traced.py")
_PROMPT = "Read the note."
_SCRIPT = [
    {"tool_calls": [{"name": "read_file", "arguments": {"file_path": "note.txt"}}]},
    "It says hello.",
]


class Trace(NamedTuple):
    """Files with how many of their functions were entered, in the whole run and in its turn."""

    entered: dict[str, dict[str, int]]
    spine: list[str]


def trace_command(root: Path) -> Trace:
    """Trace `amplifier run` with the default bundle, a scripted model and one call of a tool."""
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir(mode=0o700)
        project.mkdir()
        (project / "note.txt").write_text("hello\n", encoding="utf-8")
        provider = {"module": "provider-mock", "config": {"script": _SCRIPT}}
        (home / "settings.yaml").write_text(json.dumps({"providers": [provider]}), "utf-8")
        arguments = ["-m", "amplifier_cli", "run", _PROMPT]
        return _trace(root, "amplifier_foundation.live:LiveSession", arguments, home, project)


def trace_example(root: Path) -> Trace:
    """Trace the turn of the smallest program on the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(root / "examples" / "hello.py")]
        session = "amplifier_core.session:AmplifierSession"
        return _trace(root, session, arguments, Path(folder), Path(folder))


def _trace(root: Path, session: str, arguments: list[str], home: Path, folder: Path) -> Trace:
    report = home / "trace.json"
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    kept.pop("OPENAI_BASE_URL", None)
    done = subprocess.run(
        [sys.executable, str(_TRACED), str(root), str(report), session, *arguments],
        cwd=folder,
        env={**kept, "AMPLIFIER_HOME": str(home), "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not report.is_file():
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    told: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return Trace(told["entered"], told["spine"])
