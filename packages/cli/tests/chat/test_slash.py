"""The `/` commands."""

from __future__ import annotations

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from amplifier_cli.chat.slash import SlashCompleter
from amplifier_cli.chat.slash_commands import COMMANDS


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


def test_only_commands_complete() -> None:
    completer = SlashCompleter(COMMANDS)

    def complete(text: str) -> list[str]:
        return [each.text for each in completer.get_completions(Document(text), CompleteEvent())]

    assert complete("/co") == ["/cost", "/context"]
    assert complete("what about /co") == []
    assert complete("/cost ") == []
