"""What `make shape` counts is what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TOOLS = Path(__file__).parents[2] / "tools"
# Last, for a tool and a folder of tests share a name.
sys.path.append(str(_TOOLS))

from shape_source import circles, repeated_names, source_packages  # noqa: E402

_FILES = {
    "packages/one/src/one/a.py": """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from one.b import Same

# A reason.
first, second = 1, 2  # noqa: X
both = pair = first if second else 0
""",
    "packages/one/src/one/b.py": "def late():\n    from one import a\nclass Same: ...\n",
    "modules/two/src/two/__init__.py": "import one.b\nclass Same: ...\nclass Other: ...\n",
    "packages/one/tests/test_a.py": "x, y = 1, 2\n",
}


def test_what_is_in_the_files_is_counted(tmp_path: Path) -> None:
    for name, text in _FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    packages = source_packages(tmp_path)

    one, two = packages
    assert (one.name, two.name) == ("one", "two")
    assert (len(one.files), one.lines, one.statements) == (2, 12, 10)
    assert (one.comments, one.parallel, one.conditional) == (1, 1, 1)
    assert circles(packages) == [["one.a", "one.b"]]
    assert repeated_names(packages) == {"Same": ["one", "two"]}


@pytest.mark.slow
def test_a_run_of_the_command_is_traced_from_the_prompt_to_the_model_the_tool_and_the_log() -> None:
    command = [sys.executable, str(_TOOLS / "shape.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stderr
    spine = done.stdout.partition("## The spine of a prompt")[2]
    for part in ("commands/run.py", "provider_mock", "tool_filesystem", "store/writer.py"):
        assert part in spine
