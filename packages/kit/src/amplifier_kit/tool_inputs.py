"""What a tool says of an input that it cannot use."""

from __future__ import annotations

from pydantic import ValidationError

_MOST_PROBLEMS = 5
_MOST_CHARS = 200


def problems_in(error: ValidationError) -> str:
    """Return what is wrong with an input, in words the model can act on; never the input itself."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'input'}: {each['msg']}"[:_MOST_CHARS]
        for each in found[:_MOST_PROBLEMS]
    )
