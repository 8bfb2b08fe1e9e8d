"""The `/` commands."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from amplifier_cli.chat.slash import SlashCompleter
from amplifier_cli.chat.slash_commands import COMMANDS, export, undo
from amplifier_core.testing import MockCoordinator
from amplifier_module_contexts.context_simple.context import SimpleContextManager
from amplifier_module_files.tool_filesystem import mount


def test_a_command_is_found_by_its_name_or_the_beginning_of_it() -> None:
    command, argument, trouble = COMMANDS.find("/expand 3")
    assert (command and command.name, argument, trouble) == ("expand", "3", "")
    assert COMMANDS.find("/exp")[2] == "There is no command /exp. Did you mean /expand or /export?"
    found = COMMANDS.find("/expo")[0]
    assert found is not None
    assert found.name == "export"


def test_a_slip_of_the_finger_is_not_sent_to_the_model() -> None:
    assert COMMANDS.find("/csot")[2] == "There is no command /csot. Did you mean /cost?"
    assert COMMANDS.find("/zzz")[2] == "There is no command /zzz. /help lists them."


def chat_in(project: Path, shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a chat without records; what it puts on the screen is added to `shown`."""
    log = SimpleNamespace(records=tuple)
    store = SimpleNamespace(read=lambda session_id: log)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr("amplifier_cli.chat.slash_commands.store", lambda: store)
    writer = SimpleNamespace(metadata={"title": "A title of many words"})
    live = SimpleNamespace(session_id="s", writer=writer)
    return SimpleNamespace(project=project, live=live, terminal=SimpleNamespace(put=shown.append))


async def test_an_export_is_whole_although_the_system_writes_it_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def write_a_part(fd: int, data: bytes) -> int:
        return write(fd, data[:5])

    monkeypatch.setattr(os, "write", write_a_part)

    await export(chat_in(tmp_path, [], monkeypatch), "talk.md")

    assert (tmp_path / "talk.md").read_text("utf-8") == "# A title of many words\n"
    assert (tmp_path / "talk.md").stat().st_mode & 0o777 == 0o600


async def test_an_export_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    shown: list[Any] = []

    await export(chat_in(tmp_path, shown, monkeypatch), "talk.md")

    assert [each.text for each in shown] == ["talk.md was not written: No space left on device."]
    assert not (tmp_path / "talk.md").exists()


def test_only_commands_complete() -> None:
    completer = SlashCompleter(COMMANDS)

    def complete(text: str) -> list[str]:
        return [each.text for each in completer.get_completions(Document(text), CompleteEvent())]

    assert complete("/co") == ["/cost", "/context"]
    assert complete("what about /co") == []
    assert complete("/cost ") == []


async def test_undo_goes_one_turn_further_back_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    coordinator: Any = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(project))
    await mount(coordinator, {})
    for turn in ("one", "two"):
        await coordinator.hooks.emit("prompt:submit", {"prompt": turn})
        written = await coordinator.get("tools", "write_file").execute(
            {"file_path": f"{turn}.txt", "content": turn}
        )
        assert written.success
    context = SimpleContextManager()
    await coordinator.mount("context", context)
    shown: list[Any] = []
    chat: Any = SimpleNamespace(
        coordinator=coordinator,
        live=SimpleNamespace(session=SimpleNamespace(coordinator=coordinator)),
        terminal=SimpleNamespace(put=shown.append),
    )

    for _ in range(3):
        await undo(chat, "yes")

    assert [each.text for each in shown] == [
        f"Taken back: {project / 'two.txt'}.",
        f"Taken back: {project / 'one.txt'}.",
        "All changes are taken back.",
    ]
    assert list(project.iterdir()) == []
    read = [each["content"] for each in await context.get_messages()]
    assert ["two.txt" in read[0], "one.txt" in read[1], len(read)] == [True, True, 2]
