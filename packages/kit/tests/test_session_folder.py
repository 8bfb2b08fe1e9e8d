"""Every session has one folder, and no session id leads out of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_kit.session_folder import folder_name, session_folder, working_folder
from amplifier_sandbox.home import amplifier_home, expanded


def session(session_id: str, working_dir: str | None = None, folder: str | None = None) -> Any:
    capabilities = {"session.working_dir": working_dir, "session.folder": folder}
    return SimpleNamespace(session_id=session_id, get_capability=capabilities.get)


@pytest.mark.parametrize("session_id", ["../../etc", "..", "", "a/b", "a\\b", "a\0b", ".hidden"])
def test_a_session_id_names_one_folder_and_no_other(session_id: str) -> None:
    name = folder_name(session_id)

    assert Path(name).name == name
    assert not name.startswith(".")


def test_two_projects_of_one_name_have_folders_of_their_own() -> None:
    first, second = session("s", "one/app"), session("s", "two/app")

    assert session_folder(first) != session_folder(second)
    assert session_folder(first) == session_folder(session("s", "one/app"))


def test_without_a_word_from_the_app_it_is_the_folder_of_the_process() -> None:
    assert working_folder(session("s")) == Path.cwd()


def test_the_app_may_say_where_the_folder_is() -> None:
    assert session_folder(session("s", "one/app", "elsewhere/s")) == Path("elsewhere/s")


def test_what_is_written_as_the_users_folder_moves_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    assert expanded(Path("~/.amplifier/grants.json")) == tmp_path / ".amplifier/grants.json"

    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "elsewhere"))

    assert amplifier_home() == tmp_path / "elsewhere"
    assert expanded(Path("~/.amplifier/grants.json")) == tmp_path / "elsewhere/grants.json"
    assert expanded(Path("~/notes")) == tmp_path / "notes"
    assert session_folder(session("s", "app")).is_relative_to(tmp_path / "elsewhere")
