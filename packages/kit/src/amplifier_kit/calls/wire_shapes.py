"""An answer that does not have the form it should: one error for it, whatever is wrong."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from amplifier_core.errors import describe_error
from amplifier_core.llm_errors import StreamError

_LONGEST_REASON = 300


@contextmanager
def reading_answer(provider: str, model: str | None) -> Generator[None]:
    """Raise a StreamError for what goes wrong while a server's answer is read.

    Only around code that reads: elsewhere these exceptions are mistakes of ours.
    """
    try:
        yield
    except RecursionError as error:
        message = "the server sent JSON that is nested too deep"
        raise StreamError(message, provider=provider, model=model) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(describe_error(error).split())[:_LONGEST_REASON]
        message = f"the server's answer cannot be read: it has an unknown form ({reason})"
        raise StreamError(message, provider=provider, model=model) from error


def in_one_line(error: BaseException) -> str:
    """Return what is wrong with an answer; a validation error takes many lines to say it."""
    return " ".join(describe_error(error).split())[:_LONGEST_REASON]


def expected(value: Any, kind: type, name: str) -> Any:
    """Return a field of an answer when it is of this kind, or None when it is left out.

    Raises:
        TypeError: it is anything else, which must not pass for an empty field.
    """
    if value is None or isinstance(value, kind):
        return value
    raise TypeError(f"`{name}` is a {type(value).__name__}")
