"""The word gate: this repository passes it; each planted word or name is reported where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Written in two pieces, so that this file passes the gate it tests.
PROMISE = "TO" + "DO"


@pytest.mark.slow  # `make check` runs the gate itself
def test_this_repository_uses_its_own_words(run_tool: Callable[..., Any], root: Path) -> None:
    result = run_tool("words", root)

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "word",
    [
        "Pha" + "se 6",
        "Ta" + "sk 3",
        "iss" + "ue #12",
        "P" + "R #213",
        "B" + "1 fix",
        PROMISE,
        PROMISE + ": later",
        "FIX" + "ME",
        "XX" + "X",
        "\U0001f680",
        "\u2705",
    ],
)
@pytest.mark.parametrize("path", ["tools/place.py", "README.md", "Makefile"])
def test_a_forbidden_word_is_reported_with_its_place(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None], path: str, word: str
) -> None:
    plant(path, f"fine\nhere: {word}\n")

    result = run_tool("words")

    assert result.returncode == 1
    assert result.stdout.startswith(f"{path}:2: `")


@pytest.mark.parametrize(
    "words",
    [
        "the person",
        "The\nperson",
        "goes on",
        "a stand-in answers",
        "made anew",
        "corridor",
        "inside the house",
        "temperament",
        "lies in",
        "All is well.",
        "mend",
    ],
)
def test_an_unusual_word_in_markdown_is_reported_with_its_place(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None], words: str
) -> None:
    plant("docs/guide.md", f"```\nfine\n```\nhere: {words}\n")

    result = run_tool("words")

    assert result.returncode == 1
    assert result.stdout.startswith("docs/guide.md:4: `")


def test_an_unusual_word_in_a_string_of_the_source_is_reported_with_its_line(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None]
) -> None:
    plant("packages/a/src/a.py", '"""A file."""\n\nTEXT = f"The person {1} goes"\n')

    result = run_tool("words")

    assert result.returncode == 1
    assert result.stdout.startswith("packages/a/src/a.py:3: `The person`: say `the user`")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.py", "# it goes on\n"),
        ("tests/test_a.py", '"""It goes on."""\n'),
        ("a.md", "```console\n$ amplifier run\na stand-in answers\n```\n"),
        ("a.md", "It prints `it goes\non`, ``with ` the person``.\n"),
        ("a.md", "Amended; the personal computer; recommend.\n"),
    ],
)
def test_unusual_words_are_looked_for_in_prose_and_strings_only(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None], path: str, text: str
) -> None:
    plant(path, text)

    result = run_tool("words")

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "path", ["a/utils.py", "helpers.py", "b/common.py", "loop_v2.py", "utils/a.py", "common/b.md"]
)
def test_a_name_that_says_nothing_is_reported(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None], path: str
) -> None:
    plant(path, "fine\n")

    result = run_tool("words")

    assert result.returncode == 1
    assert "does not say what lives there" in result.stdout


def test_ordinary_prose_and_owned_promises_pass(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None]
) -> None:
    plant("a.py", f"# two-phase swap of a task; {PROMISE}(ada): measure. \u2192 \u2713 \u2502\n")
    plant("picture.png", "")

    result = run_tool("words")

    assert result.returncode == 0, result.stdout


def test_ignored_and_binary_files_are_not_read(
    repository: Path, run_tool: Callable[..., Any], plant: Callable[[str, str], None]
) -> None:
    plant(".gitignore", "build/\n")
    plant("build/a.py", PROMISE)
    (repository / "picture.png").write_bytes(b"\x89PNG\xff\xfe" + PROMISE.encode())

    result = run_tool("words")

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("excuse", "complaint"),
    [
        ('"core/utils/" = "published modules import it"', ""),
        ('"core/utils/" = ""', "its excuse has no reason"),
        ('"core/utils/" = "used"\n"gone.py" = "was here"', "gone.py: its excuse is not needed"),
    ],
)
def test_a_name_is_excused_with_a_reason(
    repository: Path,
    run_tool: Callable[..., Any],
    plant: Callable[[str, str], None],
    excuse: str,
    complaint: str,
) -> None:
    plant(
        "pyproject.toml",
        (repository / "pyproject.toml").read_text(encoding="utf-8") + excuse + "\n",
    )
    plant("core/utils/retry.py", "fine\n")

    result = run_tool("words")

    assert result.returncode == (1 if complaint else 0), result.stdout
    assert complaint in result.stdout


def test_an_excused_name_does_not_excuse_words(
    repository: Path, run_tool: Callable[..., Any], plant: Callable[[str, str], None]
) -> None:
    pyproject = (repository / "pyproject.toml").read_text(encoding="utf-8")
    plant("pyproject.toml", pyproject + '"core/utils/" = "published modules import it"\n')
    plant("core/utils/retry.py", PROMISE)

    assert run_tool("words").returncode == 1
