"""The error of the library: what happened, why, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from amplifier_kit.explained_error import ExplainedError

__all__ = ["AgentError", "OutputError", "check_option", "how_to_install"]


class AgentError(ExplainedError):
    """An agent cannot be built or run as it was described."""


class OutputError(AgentError):
    """The answer does not have the type of the output.

    `problems` says what does not fit. A turn that ended early may have no such answer:
    `stop_reason` says how it ended, as that of `Done` does.
    """

    def __init__(self, problems: str, stop_reason: str) -> None:
        if stop_reason == "completed":
            why = problems
        else:
            why = f"The turn ended as `{stop_reason}`: {problems}"
        super().__init__("The answer does not have the type of the output.", why=why)
        self.problems = problems
        self.stop_reason = stop_reason


def check_option(option: str, options: Sequence[str]) -> None:
    """Raise an AgentError if a question was answered with something that it does not offer."""
    if option not in options:
        raise AgentError(
            f"`{option}` is not an option.", why=f"The options are {', '.join(options)}."
        )


def how_to_install(extra: str) -> str:
    """Return the line that adds an extra; nothing is on a public index yet."""
    return f"In the clone: pip install --find-links dist -c constraints.txt 'amplifier[{extra}]'"
