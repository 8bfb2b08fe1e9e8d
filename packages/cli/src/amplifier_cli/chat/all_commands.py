"""The table of `/` commands."""

from __future__ import annotations

from amplifier_cli.chat import slash_changing as changing
from amplifier_cli.chat import slash_looking as looking
from amplifier_cli.chat.slash import SlashCommand, SlashCommands

COMMANDS = SlashCommands(
    [
        SlashCommand("help", "", "commands and keys", looking.show_help),
        SlashCommand("expand", "[N]", "all of a tool call", looking.expand),
        SlashCommand("steer", "TEXT", "say it into the running turn", changing.steer),
        SlashCommand("queue", "[send|drop N|clear]", "what waits to be sent", changing.queue),
        SlashCommand("cost", "", "tokens and money so far", looking.show_cost),
        SlashCommand("context", "", "what the window holds", looking.show_context),
        SlashCommand("model", "[NAME]", "list models, take another", changing.choose_model),
        SlashCommand("tools", "", "what the model can call", looking.show_tools),
        SlashCommand("undo", "[yes]", "take back the last file changes", changing.undo),
        SlashCommand("clear", "", "let the model forget", changing.clear),
        SlashCommand("fork", "", "go on in a copy", changing.fork),
        SlashCommand("export", "[FILE]", "write it down as Markdown", changing.export),
        SlashCommand("quit", "", "leave; the session stays", changing.leave),
    ]
)
