"""The manifest and the tests agree in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from contract.requirements import REQUIREMENTS, requirement, requirements_of
from contract.requirements._scan import carriers, carriers_in


def _lines(ids: Iterable[str]) -> str:
    return "".join(f"\n  {name}: {REQUIREMENTS[name].says}" for name in ids)


def test_every_requirement_is_carried_by_a_test() -> None:
    carried = {name for carrier in carriers() for name in carrier.ids}
    missing = [
        name
        for name, entry in REQUIREMENTS.items()
        if entry.deferred is None and name not in carried
    ]

    assert not missing, f"{len(missing)} requirements without a test:{_lines(missing)}"


def test_no_test_carries_an_unknown_requirement() -> None:
    unknown = [
        f"{carrier.place}: {name}"
        for carrier in carriers()
        for name in carrier.ids
        if name not in REQUIREMENTS
    ]

    assert not unknown, "Not in the manifest:\n  " + "\n  ".join(unknown)


def test_a_deferred_requirement_says_why_and_carries_no_test() -> None:
    deferred = {
        name: entry.deferred for name, entry in REQUIREMENTS.items() if entry.deferred is not None
    }
    tested = [
        f"{carrier.place}: {name}"
        for carrier in carriers()
        for name in carrier.ids
        if name in deferred
    ]

    assert all(reason.strip() for reason in deferred.values())
    assert not tested, "Deferred, and yet tested:\n  " + "\n  ".join(tested)


def test_every_use_of_the_decorator_can_be_read_and_proves_something() -> None:
    faulty = [f"{carrier.place}: {carrier.problem}" for carrier in carriers() if carrier.problem]

    assert not faulty, "\n  ".join(["Faulty uses of @requirement:", *faulty])


def test_every_entry_is_one_sentence_with_a_source() -> None:
    for name, entry in REQUIREMENTS.items():
        assert re.fullmatch(r"[A-Z]+-[1-9]\d*", name), name
        assert entry.source.strip(), name
        assert entry.says.rstrip("`").endswith("."), name


def test_every_departure_that_is_written_down_is_a_requirement_with_a_reading() -> None:
    text = Path(__file__).with_name("READINGS.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| S")]
    named = [requirement_id for row in rows for requirement_id in row[4].strip().split(", ")]

    assert len(rows) == len([line for line in text.splitlines() if line.startswith("| ")]) - 1
    assert [each for each in named if REQUIREMENTS[each].reading is None] == []


def test_an_unknown_or_missing_id_is_refused_when_the_test_is_defined() -> None:
    with pytest.raises(LookupError, match="HOOK-0"):
        requirement("HOOK-1", "HOOK-0")
    with pytest.raises(LookupError, match="no ID"):
        requirement()


def test_the_ids_of_a_test_are_readable_at_run_time() -> None:
    def proof() -> None: ...

    assert requirements_of(requirement("HOOK-2")(requirement("HOOK-1")(proof))) == (
        "HOOK-1",
        "HOOK-2",
    )


def test_uses_that_prove_nothing_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "test_sample.py"
    file.write_text(
        "@requirement(NAME)\ndef test_a(): ...\n"
        "@requirement('HOOK-1')\ndef helper(): ...\n"
        "@pytest.mark.xfail\n@requirement('HOOK-1')\nasync def test_b(): ...\n"
        "@requirement('HOOK-1')\ndef test_c(): ...\n",
        encoding="utf-8",
    )

    problems = [carrier.problem or "" for carrier in carriers_in(file, tmp_path)]

    assert [problem.split(" ")[0] for problem in problems] == ["IDs", "only", "a", ""]
