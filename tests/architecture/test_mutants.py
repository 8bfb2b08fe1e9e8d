"""Tests of the mutation tool: what it changes, what it leaves alone, and how a mutant is named."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import mutant_source
import mutants

SOURCE = '''
    """A docstring."""

    import logging
    from typing import Any

    logger = logging.getLogger(__name__)
    LIMIT = 3


    def judge(count: int | None, word: str = "yes") -> bool:
        """Another docstring."""
        if count is not None and count > LIMIT:
            logger.warning("too many count=%d", count)
            raise ValueError("too many")
        return word == "yes"
'''


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A file to mutate."""
    path = tmp_path / "planted.py"
    path.write_text(textwrap.dedent(SOURCE).lstrip(), encoding="utf-8")
    return path


def test_every_operator_constant_argument_and_statement_has_a_mutant(planted: Path) -> None:
    changes = {mutant.change for mutant in mutant_source.mutants_of(planted)}

    assert changes >= {
        "3 -> 4",
        "3 -> None",
        '"yes" -> "XXyesXX"',
        "and -> or",
        "not -> ",
        "> -> >=",
        '"too many" -> ""',
        'ValueError("too many") -> ValueError(None)',
        'raise ValueError("too many") -> pass',
        'logger.warning("too many count=%d", count) -> pass',
        'word == "yes" -> None',
        "== -> !=",
    }


@pytest.mark.parametrize("logger", ["logger", "logger: logging.Logger"])
def test_annotations_docstrings_and_the_words_of_a_log_line_are_left_alone(
    planted: Path, logger: str
) -> None:
    text = planted.read_text(encoding="utf-8")
    planted.write_text(text.replace("logger =", f"{logger} ="), encoding="utf-8")

    for mutant in mutant_source.mutants_of(planted):
        code = mutant.code()
        assert code is not None
        assert "docstring" in code
        assert "count: int | None, word: str" in code
        assert "logging.getLogger(__name__)" in code
        assert "count=%d" in code or "pass" in code


def test_a_mutant_is_one_change_and_keeps_its_name_when_its_line_moves(planted: Path) -> None:
    before = mutant_source.mutants_of(planted)
    text = planted.read_text(encoding="utf-8")
    assert len({mutant.code() for mutant in before} | {text}) == len(before) + 1
    assert {mutant.without_change().code() for mutant in before} == {text}

    planted.write_text(text.replace("LIMIT = 3", "OTHER = 1\nLIMIT = 3"), encoding="utf-8")
    after = mutant_source.mutants_of(planted)

    assert {mutant.key for mutant in before} < {mutant.key for mutant in after}
    assert len({mutant.key for mutant in after}) == len(after)


def test_a_sample_stays_the_same_when_other_mutants_come(planted: Path) -> None:
    every = mutant_source.mutants_of(planted)
    some = mutants.sampled(every, 5)

    assert mutants.sampled(list(reversed(every)), 5) == some
    assert set(mutants.sampled(some + every[:1], 5)) & set(some)
    assert len(some) == 5


def test_a_survivor_needs_a_reason_and_a_reason_a_survivor(planted: Path) -> None:
    first, second, third, *_ = mutant_source.mutants_of(planted)
    outcomes = {first.key: "survived", second.key: "survived", third.key: "killed"}
    gone = (*first.key[:4], 99)
    accepted = {second.key: "why", third.key: "why", gone: "why"}
    places = {mutant.key: str(mutant) for mutant in (first, second, third)}

    found = mutants.complaints(outcomes, set(places), accepted, places)

    assert [complaint.partition(":")[0] for complaint in found] == [
        "survived",
        "in the table, but killed",
        "in the table, but there is no such mutant",
    ]


def test_every_row_of_the_table_has_a_reason() -> None:
    table = mutants.read_table()

    assert all(len(why.split()) > 3 for why in table.values())


def test_a_mutant_of_a_decorator_is_one_of_what_runs_on_import(tmp_path: Path) -> None:
    path = tmp_path / "decorated.py"
    path.write_text("@cache(maxsize=3)\ndef judge():\n    return 4\n", encoding="utf-8")

    in_function = {
        mutant.change: mutant.is_in_function for mutant in mutant_source.mutants_of(path)
    }

    assert in_function["3 -> 4"] is False
    assert in_function["4 -> 5"] is True
