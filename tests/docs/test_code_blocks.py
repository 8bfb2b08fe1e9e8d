"""Every code block of every document does what the document says.

`python` blocks run, those of one document in order and in one namespace, from the top of the
repository. `toml`, `json` and `yaml` blocks parse. Shell blocks name `make` targets and Python
files that exist; `test_terminal_blocks.py` types what `console` blocks show. Two comments, each on
the line before a block, change this:

    <!-- no-run: why -->        the block is checked, not run
    <!-- file: path -->         the block is, to the letter, that file
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from docs.documents import ROOT, Block, blocks, documents

SHELL = ("bash", "sh", "console")
MAKE = re.compile(r"\bmake((?: +[\w.=/-]+)+)")
PYTHON_FILE = re.compile(r"\bpython3? +([\w./-]+\.py)\b")
TARGET = re.compile(r"^([a-z][\w-]*):", re.MULTILINE)


def problems(document: str, text: str, root: Path) -> Iterator[str]:
    """Yield what is wrong with a document's blocks, short of running them."""
    for block in blocks(text):
        where = f"{document}:{block.line}"
        if block.comment == "no-run" and not block.argument:
            yield f"{where}: no-run without a reason"
        if block.comment == "file":
            yield from file_problems(where, block, root / block.argument)
        if block.language in SHELL:
            yield from shell_problems(where, block.text, root)
        if problem := syntax_problem(block):
            yield f"{where}: {problem}"


def file_problems(where: str, block: Block, file: Path) -> Iterator[str]:
    """Yield a problem when the block is not the file it says it is."""
    if not file.is_file():
        yield f"{where}: no file {block.argument}"
    elif file.read_text(encoding="utf-8") != block.text:
        yield f"{where}: differs from {block.argument}"


def shell_problems(where: str, text: str, root: Path) -> Iterator[str]:
    """Yield each `make` target and each Python file that is named and does not exist."""
    targets = TARGET.findall((root / "Makefile").read_text(encoding="utf-8"))
    commands = "\n".join(line.partition(" #")[0] for line in text.splitlines())
    for words in MAKE.findall(commands):
        for word in words.split():
            if "=" not in word and not word.startswith("-") and word not in targets:
                yield f"{where}: no target `make {word}`"
    for path in PYTHON_FILE.findall(commands):
        if not (root / path).is_file():
            yield f"{where}: no file {path}"


def syntax_problem(block: Block) -> str | None:
    """Return what is wrong with the syntax of a Python, TOML, JSON or YAML block."""
    try:
        if block.language == "python":
            compile(block.text, "block", "exec")
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "yaml":
            yaml.safe_load(block.text)
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return f"{block.language}: {error}"
    return None


def program(text: str) -> str:
    """Join the blocks that run; each keeps its line numbers, so that a traceback points home."""
    lines: list[str] = []
    for block in blocks(text):
        if block.language == "python" and block.comment != "no-run":
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines)


def run(code: str, document: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run a document's program in a fresh interpreter whose tracebacks name the document."""
    runner = "import sys; exec(compile(sys.stdin.read(), sys.argv[1], 'exec'))"
    return subprocess.run(
        [sys.executable, "-c", runner, document],
        input=code,
        cwd=root,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("document", documents())
def test_every_block_of_a_document_is_true(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")

    assert list(problems(document, text, ROOT)) == []
    if code := program(text):
        result = run(code, document, ROOT)
        assert result.returncode == 0, result.stderr


def test_the_blocks_of_a_document_share_one_namespace_and_keep_their_lines(tmp_path: Path) -> None:
    text = "# T\n\n```python\nx = 1\n```\n\n```python\nassert x == 1\nraise KeyError(x)\n```\n"

    result = run(program(text), "page.md", tmp_path)

    assert result.returncode == 1
    assert 'File "page.md", line 9' in result.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<!-- no-run: -->\n```python\nx\n```\n", "page.md:3: no-run without a reason"),
        ("```python\nx = = 1\n```\n", "page.md:2: python: invalid syntax"),
        ("```toml\nx = \n```\n", "page.md:2: toml: "),
        ("```yaml\nx: [1\n```\n", "page.md:2: yaml: "),
        ("1. a\n   ```json\n   {]\n   ```\n", "page.md:3: json: "),
        ("```bash\nmake setup nothing  # make no\n```\n", "page.md:2: no target `make nothing`"),
        ("```bash\npython examples/no.py\n```\n", "page.md:2: no file examples/no.py"),
        ("<!-- file: no.py -->\n```python\n```\n", "page.md:3: no file no.py"),
        ("<!-- file: a.py -->\n```python\nx = 2\n```\n", "page.md:3: differs from a.py"),
    ],
)
def test_a_block_that_is_not_true_is_reported(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "Makefile").write_text("setup: ## install\n", encoding="utf-8")
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")

    found = list(problems("page.md", text, tmp_path))

    assert len(found) == 1
    assert found[0].startswith(problem)


def test_a_block_with_a_reason_not_to_run_does_not_run(tmp_path: Path) -> None:
    text = "<!-- no-run: needs a key -->\n```python\nraise KeyError\n```\n"

    assert list(problems("page.md", text, tmp_path)) == []
    assert program(text) == ""
