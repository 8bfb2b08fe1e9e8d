"""Agents in a few lines, over the kernel and its modules: `from amplifier import Agent, tool`."""

from __future__ import annotations

from amplifier.agent import Agent
from amplifier.budget import Budget
from amplifier.content import File, Image, Prompt
from amplifier.durable import Durable, Turn
from amplifier.errors import AgentError, OutputError
from amplifier.events import (
    Done,
    Event,
    Question,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    Usage,
)
from amplifier.functions import Context, tool
from amplifier.guards import Ask, Deny, Guard, ToolCall
from amplifier.session import Session
from amplifier.stored import Sessions, Store
from amplifier_journal.errors import SessionOpenError

__version__ = "0.2.0"

__all__ = [
    "Agent",
    "AgentError",
    "Ask",
    "Budget",
    "Context",
    "Deny",
    "Done",
    "Durable",
    "Event",
    "File",
    "Guard",
    "Image",
    "OutputError",
    "Prompt",
    "Question",
    "Restarted",
    "Session",
    "SessionOpenError",
    "Sessions",
    "Store",
    "TextDelta",
    "ThinkingDelta",
    "ToolCall",
    "ToolEnded",
    "ToolStarted",
    "Turn",
    "Usage",
    "tool",
]
