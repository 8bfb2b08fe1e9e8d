"""What is read of files that somebody else wrote stays within bounds, however they are made."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.bundles.mentions import mentions_in
from amplifier_foundation.config import contents, named_files
from amplifier_foundation.config.documents import is_bounded, parse_mapping
from amplifier_foundation.config.variables import expand
from amplifier_foundation.errors import TrustError
from amplifier_foundation.sources.content import files_of
from amplifier_foundation.trust import Trust

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def merges(levels: int) -> str:
    lines = ["a0: &a0 {k: 1}"]
    for number in range(levels):
        aliases = ", ".join([f"*a{number}"] * 9)
        lines.append(f"a{number + 1}: &a{number + 1} {{<<: [{aliases}]}}")
    return "\n".join(lines)


TOO_MUCH = {
    "brackets": "[" * 500_000,
    "closed brackets": "a: " + "[" * 300_000 + "]" * 300_000,
    "dashes": "- " * 300_000 + "x",
    "question marks": "? " * 300_000,
    "mappings": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "merges": merges(12),
    "aliases": "a: &a [x, x]\n" + "".join(f"k{each}: [*a, *a]\n" for each in range(20_000)),
    "itself": "a: &a [*a]",
    "digits": "a: " + "1" * 900_000,
    "sixties": "a: 1:" + "1:" * 400_000 + "1",
}


@pytest.mark.attack("review M10")
@pytest.mark.parametrize("kind", TOO_MUCH)
def test_yaml_that_stands_for_too_much_is_not_built(kind: str) -> None:
    with pytest.raises(TrustError, match="holds too much"):
        parse_mapping(TOO_MUCH[kind], where="x", error=TrustError)


def test_the_bounds_are_met_exactly() -> None:
    nested = "[" * 10 + "]" * 10
    assert is_bounded(nested, LOADER, values=10, depth=10)
    assert not is_bounded(nested, LOADER, values=9, depth=10)
    assert not is_bounded(nested, LOADER, values=10, depth=9)
    # The list, its first entry of three, and twice three more.
    assert is_bounded("[&a [x, y], *a, *a]", LOADER, values=10, depth=2)
    assert not is_bounded("[&a [x, y], *a, *a]", LOADER, values=9, depth=2)


@pytest.mark.parametrize("text", ["a: 1. First of all, " + "go on " * 500, f"a: '{'1' * 2_000}'"])
def test_a_long_text_that_begins_with_a_digit_is_no_number(text: str) -> None:
    assert len(parse_mapping(text, where="x", error=TrustError)["a"]) >= 2_000


@given(PLAIN)
def test_what_people_write_is_within_the_bounds(value: Any) -> None:
    assert is_bounded(yaml.safe_dump(value), LOADER, values=10_000, depth=50)


def seconds(work: Callable[[int], object], size: int) -> float:
    """Return the least processor time of three runs."""
    times: list[float] = []
    for _ in range(3):
        started = time.process_time()
        work(size)
        times.append(time.process_time() - started)
    return min(times)


def _backticks(size: int) -> object:
    runs = range(int((2 * size) ** 0.5), 0, -1)
    return mentions_in("x".join("`" * each for each in runs))


def _variables(size: int) -> object:
    return expand({"a": "${A:" * (size // 4)}, lambda name: None, [])


@pytest.mark.attack("review M10")
@pytest.mark.parametrize("work", [_backticks, _variables])
def test_a_text_of_four_times_the_size_takes_no_more_than_ten_times_the_time(
    work: Callable[[int], object],
) -> None:
    """Time by the square of the size would be sixteen times as long."""
    assert seconds(work, 400_000) < 10 * seconds(work, 100_000) + 0.01


def test_code_spans_end_at_a_run_of_the_same_length() -> None:
    assert mentions_in("@a.md `@b.md` ``@c.md ` @d.md`` @e.md ` @f.md") == ["a.md", "e.md", "f.md"]
    assert mentions_in("``@a.md` @b.md") == ["b.md"]


def test_a_variable_keeps_its_meaning_before_and_after_what_is_none() -> None:
    unset: list[str] = []
    values = {"a": "${A:x}/${B:", "b": "${A:${B}}", "c": "${A", "d": "${C}", "e": "x${C}"}

    found = expand(values, {"A": "1"}.get, unset)

    assert found == {"a": "1/${B:", "b": "1}", "c": "${A", "e": "x"}
    assert unset == ["C", "C"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project's folder with an empty `.amplifier`; it is gone afterwards, however deep."""
    (tmp_path / "project" / ".amplifier").mkdir(parents=True)
    yield tmp_path / "project"
    # What pytest itself does would end in a RecursionError.
    subprocess.run(["rm", "-rf", str(tmp_path / "project")], check=True, timeout=60)


def nested(folder: Path, depth: int) -> None:
    """Make folders in one another, deeper than a path could name."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=descriptor)
        below = os.open("a", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)


@pytest.mark.attack("review M10")
def test_folders_that_are_too_deep_cannot_be_verified(tmp_path: Path, project: Path) -> None:
    nested(project / ".amplifier", 1_400)

    status = Trust(tmp_path / "home").status(project)

    assert not status.trusted
    assert status.unverifiable == [".amplifier/" + "/".join("a" * 100)]


@pytest.mark.attack("review M10")
def test_the_files_of_a_module_are_found_at_any_depth(project: Path) -> None:
    nested(project, 1_400)

    assert list(files_of(project)) == []


@pytest.mark.attack("review M10")
def test_words_that_begin_no_path_cost_no_look_at_the_disk(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    look = named_files.NameReader._at

    def counted(*given: Any) -> Any:
        nonlocal looks
        looks += 1
        return look(*given)

    monkeypatch.setattr(named_files.NameReader, "_at", counted)
    words = " ".join(f"@a{number}" for number in range(50_000))
    (project / ".amplifier" / "x.md").write_text(words + " @there @other/x.md", encoding="utf-8")
    (project / "there.md").write_text("x", encoding="utf-8")
    (project / "other").mkdir()
    (project / "other" / "x.md").write_text("x", encoding="utf-8")

    status = Trust(tmp_path / "home").status(project)

    assert status.files == [".amplifier/x.md", "other/x.md", "there.md"]
    assert looks == 2


def fill(project: Path, text: str) -> None:
    for number in range(5):
        file = project / ".amplifier" / f"folder{number}" / "x.yaml"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")


@pytest.mark.attack("review M10")
@pytest.mark.parametrize(
    ("bound", "why"), [("_MAX_FOLDERS", "3 folders"), ("_MAX_FILES", "3 files")]
)
def test_beyond_a_bound_a_folder_is_not_trusted_and_says_why(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, bound: str, why: str
) -> None:
    monkeypatch.setattr(contents, bound, 3)
    fill(project, "")
    trust = Trust(tmp_path / "home")

    status = trust.status_to_run(project)

    assert (status.trusted, status.files) == (False, [".amplifier"])
    assert why in status.reasons[".amplifier"]
    with pytest.raises(TrustError, match="too large to be trusted"):
        trust.record(project, status.digest)


@pytest.mark.attack("review M10")
@pytest.mark.parametrize(
    ("bound", "text", "why"),
    [
        ("_MAX_PARSED", "a: 1\n" * 10, "bytes of settings and texts"),
        ("_MAX_LOOKUPS", "a: [agents/1, agents/2, agents/3, agents/4]", "names too many files"),
    ],
)
def test_beyond_a_bound_the_files_that_were_not_read_keep_a_folder_from_being_trusted(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, bound: str, text: str, why: str
) -> None:
    monkeypatch.setattr(named_files, bound, 3)
    fill(project, text)
    trust = Trust(tmp_path / "home")

    status = trust.status_to_run(project)

    assert (status.trusted, len(status.files)) == (False, 5)
    assert status.unverifiable
    assert all(why in status.reasons[name] for name in status.unverifiable)
    with pytest.raises(TrustError, match="cannot be trusted"):
        trust.record(project, status.digest)
