"""Allow rules: a line passes only when every command of it is one that a rule names."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amplifier_module_tool_bash.config import BashConfig
from amplifier_module_tool_bash.guard import AllowRules
from amplifier_sandbox.own.command_lines import LONGEST_LINE, UnreadableLineError, read_commands

# Bash itself as the judge: it finds no program and says which ones it looked for.
PRELUDE = """
command_not_found_handle() { IFS=$'\\x1f'; printf '%s\\x1e' "$*" >&7; }
exec 7>>"$REPORT"; PATH=/nowhere; set -f
"""


def rules(*allow: Any) -> AllowRules:
    return AllowRules(BashConfig.model_validate({"allow": list(allow)}).allow)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("git status", "git status"),
        ("git status", "  git\tstatus  "),
        ("git status", "git status; git status && git status | git status &"),
        ("git status", "git status 2>/dev/null"),
        ("git status", "git status >/dev/null 2>&1"),
        ("git status", "git 'status'\n\ngit \"status\"\n"),
        ("ls *", "ls"),
        ("ls *", "ls -la 'a b' *.py ~"),
        ("cat src/*", "cat src/a.py"),
        ("grep -n * src", "grep -n 'x;y' src"),
        ({"program": "pytest", "args": "-q tests/*"}, "pytest -q tests/test_a.py"),
        ({"program": "make"}, "make"),
    ],
)
def test_a_line_of_which_every_command_matches_is_allowed(rule: Any, line: str) -> None:
    assert rules(rule).objection(line) is None


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("git status", "git"),
        ("git status", "git status --short"),
        ("git status", "git stash"),
        ("git status", "git -c x=y status"),
        ("ls *", "lsof"),
        ("ls *", "/bin/ls"),
        ("ls *", "./ls"),
        ("cat src/*", "cat src/a src/b"),
        ("cat src/*", "cat src/*"),
        ("make", "make install"),
        ("ls *", ""),
        ("ls *", " ; "),
    ],
)
def test_what_no_rule_names_is_not_allowed(rule: Any, line: str) -> None:
    assert rules(rule).objection(line) is not None


@pytest.mark.attack("S2")
@pytest.mark.parametrize(
    "line",
    [
        "bash -c 'rm x'",
        "eval 'rm x'",
        "ls ${x@P}",
        "ls$IFS-la",
        "ls $(rm x)",
        "ls `rm x`",
        "ls <(rm x)",
        "ls <<E\n$(rm x)\nE",
        "ls <<< x",
        "ls\nrm x",
        "ls && rm x",
        "ls || rm x",
        "ls; rm x",
        "ls & rm x",
        "ls | rm x",
        "ls > file",
        "ls >> ~/.bashrc",
        "ls >/dev/nullx",
        "ls >/dev/null'x'",
        "ls 'a'2>/dev/null",
        "ls >&file",
        "X=1 ls",
        "X=1",
        "PATH=. ls",
        "ls() { rm x; }; ls",
        "alias ls=rm; ls",
        "printf -v PATH .; ls",
        "if ls; then rm x; fi",
        "for PATH in .; do ls; done",
        "time rm x",
        "! rm x",
        "{ rm x; }",
        "(rm x)",
        "l\\s",
        "l''s",
        "'ls'",
        "l[s]",
        "ls \\\n; rm x",
        "ls # comment",
        "ls 'unfinished",
        'ls "$(rm x)"',
        'ls "a\\"',
        "ls $'\\x72'",
        "ls {a,b}",
        "ls\r\nrm x",
        "ls\x00rm",
        "ls\u2028rm x",
        "echo cm0K | base64 -d | sh",
    ],
)
def test_a_rule_for_ls_and_echo_does_not_cover(line: str) -> None:
    assert rules("ls *", "echo *", "base64 *").objection(line) is not None


@pytest.mark.attack("S3")
@pytest.mark.parametrize("position", [51, 5_001])
@pytest.mark.parametrize("separator", [";", "&&", "|", "\n"])
def test_a_command_is_found_at_any_position(position: int, separator: str) -> None:
    line = f"a{separator}" * (position - 1) + "rm x"

    assert rules("a").objection(line) is not None


@pytest.mark.attack("S3")
@pytest.mark.parametrize(
    "piece", ["a;", "ls; ", "a\n", "'a'", "${", "a=(", "<<A ", "(", "case ", "1>", " ", '"', "\\"]
)
def test_reading_takes_time_in_proportion_to_the_line(piece: str) -> None:
    allowed = rules("a", "ls *")

    def seconds(length: int) -> float:
        line = (piece * length)[:length]
        started = time.thread_time()
        allowed.objection(line)
        return time.thread_time() - started

    longest = min(seconds(LONGEST_LINE) for _ in range(5))
    eighth = min(seconds(LONGEST_LINE // 8) for _ in range(5))

    # In proportion is 8 times; a reader that looks back over the line would take 64.
    assert longest < 20 * max(eighth, 1e-4)


@pytest.mark.attack("S3")
def test_a_line_that_is_too_long_is_not_read() -> None:
    assert rules("a").objection("a;" * 50_000) == rules("a").objection("'" * 100_000)


# Mostly what the reader knows, so that it often says yes, and now and then what it must not.
KNOWN = [
    *"ab2 ;|&\n-=*~'\"",
    " b ",
    "'x y'",
    '"q r"',
    " 2>&1 ",
    " >/dev/null ",
    "2>/dev/null",
    "&&",
]
STRANGE = [*"$`(){}<>!#\\\t[]:,", "{a,b}", "$(b)", "`b`", '"\\"', "\\'", "#", "a=b ", "<<a\n"]
PIECES = st.sampled_from([*KNOWN * 4, *STRANGE])


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("judge") / "report"


@settings(max_examples=600)
@given(words=st.lists(PIECES, max_size=10))
@example(words=["a|b&", "a >/dev/null 2>&1\n", "b 'x y'\"q\"*~"])
def test_bash_runs_nothing_but_what_was_read(report: Path, words: list[str]) -> None:
    line = "a " + "".join(words)
    try:
        read = [[c.program, *(word.text for word in c.args)] for c in read_commands(line)]
    except UnreadableLineError:
        return
    report.write_text("", "utf-8")

    judged = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"{PRELUDE}\n{line}\nwait"],
        check=False,
        capture_output=True,
        cwd=report.parent,
        env={"REPORT": str(report), "HOME": "~"},
        timeout=10,
    )

    records = report.read_text("utf-8").split("\x1e")[:-1]
    ran = [record.split("\x1f") for record in records]
    assert ran or b"syntax error" in judged.stderr, "the judge saw nothing"
    assert [command for command in ran if command not in read] == []
    assert sorted(report.parent.iterdir()) == [report]
