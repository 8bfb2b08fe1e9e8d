"""The error of the library: what happened, why, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from amplifier_kit.explained_error import ExplainedError

__all__ = ["AgentError", "check_option", "how_to_install"]


class AgentError(ExplainedError):
    """An agent cannot be built or run as it was described."""


def check_option(option: str, options: Sequence[str]) -> None:
    """Raise an AgentError if a question was answered with something that it does not offer."""
    if option not in options:
        raise AgentError(
            f"`{option}` is not an option.", why=f"The options are {', '.join(options)}."
        )


def how_to_install(extra: str) -> str:
    """Return the line that adds an extra; nothing is on a public index yet."""
    return f"In the clone: pip install --find-links dist -c constraints.txt 'amplifier[{extra}]'"
