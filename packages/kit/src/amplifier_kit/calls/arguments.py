"""The arguments of a tool call, which arrive as text and may not be what they should."""

from __future__ import annotations

import json
from typing import Any, cast

from amplifier_kit.tool_inputs import broken_input
from amplifier_kit.valid_text import is_too_deep


def parse_arguments(raw: str, *, cut_off: bool = False) -> dict[str, Any]:
    """Return the arguments as a dict; an empty text is an empty dict.

    Never guesses: half an argument could name half a file. Of a text that is not a JSON object, the
    model reads in the result of its call what is wrong and where. Asking again for the whole answer
    would be paid for as often, and the model would not know why.
    """
    problem = "are not a JSON object"
    try:
        arguments: Any = json.loads(raw) if raw.strip() else {}
        if is_too_deep(arguments):
            problem = "are nested too deep"
        elif isinstance(arguments, dict):
            return cast("dict[str, Any]", arguments)
    except ValueError as error:
        problem = f"are not JSON: {error}"
    except RecursionError:
        problem = "are nested too deep"
    if cut_off:
        problem = f"were cut off by the output limit, so they {problem}; give shorter ones"
    return broken_input(raw, problem)
