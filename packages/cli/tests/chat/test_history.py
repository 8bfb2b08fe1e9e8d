"""What was typed before."""

from __future__ import annotations

from pathlib import Path

from amplifier_cli.chat.chat import PrivateHistory


def test_only_the_owner_can_read_what_was_typed(tmp_path: Path) -> None:
    path = tmp_path / "home" / "chat-history"
    PrivateHistory(path).append_string("my secret plan")
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(PrivateHistory(path).load_history_strings()) == ["my secret plan"]


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "chat-history"
    path.touch(mode=0o644)
    PrivateHistory(path)
    assert path.stat().st_mode & 0o777 == 0o600
