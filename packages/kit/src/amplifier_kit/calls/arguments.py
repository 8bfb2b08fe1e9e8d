"""The arguments of a tool call, which arrive as text and may not be what they should."""

from __future__ import annotations

import json
from typing import Any, cast

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.valid_text import is_too_deep


def parse_arguments(
    raw: str, *, tool_name: str, provider: str, model: str | None = None, cut_off: bool = False
) -> dict[str, Any]:
    """Return the arguments as a dict; an empty text is an empty dict.

    Never guesses: half an argument could name half a file. An answer that reached its token limit
    (`cut_off`) would do so again and is not retryable; any other may be better the next time.

    Raises:
        InvalidToolCallError: the text is not a JSON object.
    """
    reason = "are not a JSON object"
    try:
        arguments: Any = json.loads(raw) if raw.strip() else {}
        if is_too_deep(arguments):
            reason = "are nested too deep"
        elif isinstance(arguments, dict):
            return cast("dict[str, Any]", arguments)
    except ValueError as error:
        reason = f"are not JSON: {error}"
    except RecursionError:
        reason = "are nested too deep"
    if cut_off:
        reason = "were cut off by the output limit; raise `max_output_tokens`"
    raise InvalidToolCallError(
        f"The arguments of a call to `{tool_name}` {reason}",
        tool_name=tool_name,
        raw_arguments=raw,
        provider=provider,
        model=model,
        retryable=not cut_off,
    )
