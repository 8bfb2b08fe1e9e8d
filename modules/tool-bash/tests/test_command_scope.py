"""Which commands one answer can be about, and which only by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_module_tool_bash.command_scope import command_scope
from amplifier_module_tool_bash.config import UNPROTECTED


@pytest.mark.parametrize(
    ("line", "scope"),
    [
        ("pytest", "pytest"),
        ("  pytest -q tests/*.py ", "pytest"),
        ("pytest -k 'a or b; c'", "pytest"),
        ("make", "make"),
        ("make test VERBOSE=1", "make"),
        ("git commit -m 'one; two'", "git commit"),
        ("npm run build", "npm run"),
        ("npm test", "npm test"),
        ("cargo test --release", "cargo test"),
        ("go test ./...", "go test"),
        ("uv run pytest -q", "uv run pytest"),
        ("uv run python -m pytest", "uv run python -m pytest"),
        ("uv sync", "uv sync"),
        ("poetry run mypy .", "poetry run mypy"),
        ("python -m pytest -x", "python -m pytest"),
        ("python3.12 -m http.server", "python3.12 -m http.server"),
        ("python scripts/build.py --all", "python scripts/build.py"),
        ("node server.js", "node server.js"),
        ("pip install -r requirements.txt", "pip install"),
    ],
)
def test_a_command_is_known_by_its_program_and_sub_command(line: str, scope: str) -> None:
    assert command_scope(line) == scope


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "line",
    [
        "",
        "pytest; rm -rf x",
        "pytest && rm -rf x",
        "pytest || rm -rf x",
        "pytest | sh",
        "pytest & rm -rf x",
        "pytest &",
        "pytest\nrm -rf x",
        "pytest > conftest.py",
        "pytest >/dev/null",
        "pytest 2>&1",
        "pytest < x",
        "pytest $(rm -rf x)",
        "pytest `rm -rf x`",
        'pytest "$(rm -rf x)"',
        "pytest $X",
        "pytest <(rm -rf x)",
        "PATH=. pytest",
        "./pytest",
        "/tmp/pytest",
        "~/pytest",
        "py*st",
        "'pytest' x",
        "if pytest",
        "(pytest)",
        "! pytest",
        "eval pytest",
        "command pytest",
        "exec pytest",
        "pytest \\; rm",
        "pytest #",
    ],
)
def test_more_than_one_plain_command_has_no_scope(line: str) -> None:
    assert command_scope(line) is None


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "line",
    [
        "bash -c 'rm -rf x'",
        "sh x.sh",
        "env pytest",
        "xargs rm",
        "sudo make",
        "timeout 5 pytest",
        "nice pytest",
        "find . -exec rm {} +",
        "find . -name x",
        "ssh host ls",
        "python -c 'import os'",
        "python -cimport",
        "python -",
        "python",
        "python -m timeit 'x'",
        "python -m pdb x.py",
        "python -im pytest",
        "perl -e 'unlink x'",
        "node --eval x",
        "git",
        "git -c alias.x=!rm x",
        "git -C .. commit",
        "git config alias.x '!rm'",
        "git rebase --exec rm",
        "git bisect run rm",
        "git submodule foreach rm",
        "npm exec rm",
        "npx rm",
        "uv run bash -c rm",
        "uv run --with x pytest",
        "uv run python -c x",
        "uv run uv run sh",
        "uv run ./x",
        "uv tool run x",
        "docker run x",
        "awk 'BEGIN { system(\"rm x\") }'",
        "sed -i s/a/b/e x",
        "tar --to-command=rm -xf x",
        "rm -rf x",
        "compgen -C rm",
        "cross-env X=1 rm",
        "pyenv exec rm",
    ],
)
def test_a_program_that_runs_what_it_is_given_has_no_scope(line: str) -> None:
    assert command_scope(line) is None


@pytest.mark.parametrize(
    ("config", "edits_files"),
    [({}, True), ({"network": True}, False), ({"sandbox": UNPROTECTED}, False)],
)
async def test_a_command_changes_only_files_unless_it_has_more(
    mounted: Any, config: dict[str, Any], edits_files: bool
) -> None:
    tool = await mounted(**config)

    assert tool.edits_files is edits_files


async def test_the_tool_names_the_scope_of_a_call(mounted: Any) -> None:
    tool = await mounted()

    (scope,) = tool.call_scopes({"command": "git commit -m x"})

    assert (scope.key, scope.words) == ("command git commit", "`git commit` with any arguments")
    assert tool.call_scopes({"command": 1}) == []


async def test_outside_of_the_sandbox_there_is_no_scope(mounted: Any) -> None:
    tool = await mounted()
    call = {"command": "pytest", "outside_sandbox": True, "reason": "so"}

    assert tool.call_scopes(call) == []
    tool.is_bounded = False
    assert tool.call_scopes({"command": "pytest"}) == []
