"""Which commands only look."""

from __future__ import annotations

import pytest

from amplifier_module_tool_bash.reading import is_reading


@pytest.mark.parametrize(
    "line",
    [
        "git log --oneline -5",
        "git diff HEAD",
        "git --no-pager show HEAD:README.md",
        "git branch -a",
        "git status --short && git remote -v",
        "cat x | head",
        "cat a b | sort | uniq -c | sort -rn | head -20",
        "rg -n 'def main' src",
        "find . -name '*.py' -not -path './.git/*'",
        "python3 --version",
        "ls -la; pwd; wc -l *.py",
        "sed -n 1,40p setup.py",
        "grep -rn word src 2>/dev/null | wc -l",
        "test -f x && echo yes || echo no",
        "env",
        "find . -name '*.py' -print0 | xargs -0 wc -l | sort -rn",
        "git ls-files | xargs -n 10 grep -n 'import os'",
        'grep -rn "os\\.path" --include="*.py" .',
        "node -v && npm -v",
    ],
)
def test_a_command_that_only_looks_is_known(line: str) -> None:
    assert is_reading(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "make",
        "rm x",
        "cat x > y",
        "cat $(rm x)",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -fprint0 x",
        "sort -o x y",
        "sort -ro x y",
        "sort --output=x y",
        "uniq a b",
        "sed -i s/a/b/ x",
        "sed -n w/etc/x y",
        "env rm x",
        "git",
        "git commit -m x",
        "git branch new",
        "git tag v1",
        "git stash",
        "git worktree",
        "git -c core.pager=x log",
        "git diff --output=x",
        "git grep --open-files-in-pager=x y",
        "git grep -Oless x",
        "git log --ext-diff",
        "rg --pre x y",
        "less -o x y",
        "./python3 --version",
        "xargs rm",
        "xargs sort",
        "xargs -n 1 rm",
        "xargs -a x cat",
        "xargs -0 sh -c cat",
        "pytest -v",
        'cat "x\\`rm y`"',
        'cat "x\\\\" rm "y"',
        "tee x",
        "date -s now",
        "ls; rm x",
        "python3 -c 1",
    ],
)
def test_any_other_command_is_not(line: str) -> None:
    assert not is_reading(line)
