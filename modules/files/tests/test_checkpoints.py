"""Checkpoints: a turn's files can be brought back, a person's edits are never touched."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_module_files.checkpoints import Checkpoints, Step
from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace

Make = Callable[..., Checkpoints]


def change(checkpoints: Checkpoints, workspace: Workspace, path: str, new: bytes | None) -> None:
    place = workspace.locate_for_writing(path)
    checkpoints.change(place, checkpoints.content(place), new)


def actions(steps: list[Step]) -> dict[str, str]:
    return {Path(step.path).name: step.action for step in steps}


@pytest.fixture
def checkpoints(open_checkpoints: Make, workspace: Workspace, work: Path) -> Checkpoints:
    """Checkpoints after one turn, which changed `a` twice and made `new/b`."""
    (work / "a").write_bytes(b"old")
    (work / "a").chmod(0o640)
    made = open_checkpoints()
    for path, content in (("a", b"first"), ("new/b", b"made"), ("a", b"second")):
        change(made, workspace, path, content)
    return made


def test_a_turn_is_listed_with_its_files(checkpoints: Checkpoints, work: Path) -> None:
    (turn,) = checkpoints.list()

    assert (turn.turn, turn.undoes) == (1, None)
    assert turn.paths == [f"{work}/a", f"{work}/new/b"]


def test_undo_brings_back_what_was_there_before_the_turn(
    checkpoints: Checkpoints, work: Path
) -> None:
    assert actions(checkpoints.undo(1)) == {"a": "restore", "b": "remove"}

    assert (work / "a").read_bytes() == b"old"
    assert stat.S_IMODE((work / "a").stat().st_mode) == 0o640
    assert not (work / "new/b").exists()


def test_the_undo_can_be_undone(checkpoints: Checkpoints, work: Path) -> None:
    checkpoints.undo(1)
    assert [(each.turn, each.undoes) for each in checkpoints.list()] == [(1, None), (2, 1)]

    assert actions(checkpoints.undo(2)) == {"a": "restore", "b": "restore"}

    assert (work / "a").read_bytes() == b"second"
    assert (work / "new/b").read_bytes() == b"made"
    checkpoints.undo(3)
    assert (work / "a").read_bytes() == b"old"


def test_what_a_person_changed_since_is_kept_and_reported(
    checkpoints: Checkpoints, work: Path
) -> None:
    (work / "a").write_bytes(b"second, and mine")

    steps = {Path(step.path).name: step for step in checkpoints.undo(1)}

    assert (steps["a"].action, steps["a"].reason) == ("keep", "it was changed after the turn")
    assert steps["b"].action == "remove"
    assert (work / "a").read_bytes() == b"second, and mine"


def test_what_a_person_changed_during_the_turn_is_what_comes_back(
    checkpoints: Checkpoints, workspace: Workspace, work: Path
) -> None:
    (work / "a").write_bytes(b"second, and mine")
    change(checkpoints, workspace, "a", b"third")

    assert actions(checkpoints.undo(1))["a"] == "restore"
    assert (work / "a").read_bytes() == b"second, and mine"


def test_a_file_that_a_person_removed_stays_removed(checkpoints: Checkpoints, work: Path) -> None:
    (work / "a").unlink()

    assert actions(checkpoints.undo(1))["a"] == "keep"
    assert not (work / "a").exists()


def test_a_preview_shows_the_differences_and_changes_nothing(
    checkpoints: Checkpoints, work: Path
) -> None:
    steps = {Path(step.path).name: step for step in checkpoints.preview(1)}

    assert "-second\n+old" in steps["a"].diff
    assert steps["b"].action == "remove"
    assert (work / "a").read_bytes() == b"second"
    assert len(checkpoints.list()) == 1


def test_turns_are_undone_each_by_itself(
    checkpoints: Checkpoints, workspace: Workspace, work: Path
) -> None:
    checkpoints.begin_turn()
    change(checkpoints, workspace, "c", b"third")
    checkpoints.begin_turn()
    change(checkpoints, workspace, "a", b"later")

    assert actions(checkpoints.undo(2)) == {"c": "remove"}
    assert actions(checkpoints.undo(1))["a"] == "keep"
    assert actions(checkpoints.undo(3)) == {"a": "restore"}
    assert (work / "a").read_bytes() == b"second"


def test_another_process_finds_the_turns_and_goes_on_counting(
    checkpoints: Checkpoints, open_checkpoints: Make, workspace: Workspace, work: Path
) -> None:
    reopened = open_checkpoints()

    change(reopened, workspace, "c", b"more")

    assert [each.turn for each in reopened.list()] == [1, 2]
    reopened.undo(1)
    assert (work / "a").read_bytes() == b"old"


def test_a_change_that_a_crash_prevented_is_no_obstacle(
    checkpoints: Checkpoints, workspace: Workspace, work: Path
) -> None:
    """The record of a change comes before the change; here the change never came."""
    place = workspace.locate_for_writing("a")
    (work / "a").chmod(0o440)
    with pytest.raises(RefusedError):
        checkpoints.change(place, b"second", b"never")
    (work / "a").chmod(0o640)

    assert actions(checkpoints.undo(1))["a"] == "restore"
    assert (work / "a").read_bytes() == b"old"


def test_what_cannot_be_saved_is_not_changed(
    open_checkpoints: Make, workspace: Workspace, work: Path, tmp_path: Path
) -> None:
    (work / "a").write_bytes(b"old")
    (tmp_path / "store").write_bytes(b"a file where the folder has to be")

    with pytest.raises(OSError, match="exists|directory"):
        change(open_checkpoints(), workspace, "a", b"new")

    assert (work / "a").read_bytes() == b"old"


def test_a_damaged_copy_is_not_put_back(
    checkpoints: Checkpoints, work: Path, tmp_path: Path
) -> None:
    for saved in (tmp_path / "store/session/content").iterdir():
        saved.write_bytes(b"damaged")

    steps = {Path(step.path).name: step for step in checkpoints.undo(1)}

    assert (steps["a"].action, steps["a"].reason) == ("keep", "what was saved of it is damaged")
    assert (work / "a").read_bytes() == b"second"


@pytest.mark.attack("F6")
def test_a_forged_record_cannot_reach_out_of_the_workspace(
    checkpoints: Checkpoints, secret: Path, work: Path, tmp_path: Path
) -> None:
    """The targets hold what the turn wrote, so nothing but the path speaks against them."""
    record = tmp_path / "store/session/000001/000000"
    text = record.read_text(encoding="utf-8")
    (work / ".git").mkdir()
    for target in (secret, work / ".git/config", work / "../secret.txt"):
        target.write_bytes(b"first")
        record.write_text(text.replace(f"{work}/a", str(target)), encoding="utf-8")

        assert checkpoints.undo(1)[0].action == "keep"
        assert target.read_bytes() == b"first"


@pytest.mark.attack("F1")
def test_undo_does_not_follow_a_link_that_took_the_place_of_a_file(
    checkpoints: Checkpoints, secret: Path, work: Path
) -> None:
    secret.write_bytes(b"second")
    (work / "a").unlink()
    (work / "a").symlink_to(secret)

    assert actions(checkpoints.undo(1))["a"] == "keep"
    assert secret.read_bytes() == b"second"


def test_only_the_newest_turns_are_kept_with_what_they_need(
    open_checkpoints: Make, workspace: Workspace, work: Path, tmp_path: Path
) -> None:
    checkpoints = open_checkpoints(keep=2)
    for number in range(5):
        checkpoints.begin_turn()
        change(checkpoints, workspace, "a", str(number).encode())

    assert [each.turn for each in checkpoints.list()] == [4, 5]
    assert len(list((tmp_path / "store/session/content").iterdir())) == 2
    checkpoints.undo(5)
    assert (work / "a").read_bytes() == b"3"


def test_an_unknown_turn_is_said_to_be_unknown(open_checkpoints: Make) -> None:
    with pytest.raises(LookupError, match="turn 7"):
        open_checkpoints().undo(7)


def test_what_is_saved_is_the_owners_alone(checkpoints: Checkpoints, tmp_path: Path) -> None:
    saved = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]

    assert len(saved) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in saved} == {0o600}
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


def test_a_folder_only_for_reading_is_not_undone_into(
    checkpoints: Checkpoints, work: Path, tmp_path: Path
) -> None:
    reading = Workspace(Root(work, writable=False))
    store = Checkpoints(tmp_path / "store" / "session", reading, limit=1_000, keep=10)

    assert set(actions(store.undo(1)).values()) == {"keep"}
    assert (work / "a").read_bytes() == b"second"
