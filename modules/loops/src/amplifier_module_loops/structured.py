"""Structured answers: parses an answer and checks it against a JSON Schema."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from amplifier_core.message_models import ResponseFormatJsonSchema

_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_MOST_ERRORS = 10


class Checked(NamedTuple):
    """A checked answer: its value, valid if there are no errors."""

    value: Any
    errors: list[str]

    @property
    def text(self) -> str:
        """The value as JSON in canonical form."""
        return json.dumps(self.value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


class OutputSchema:
    """The schema that an answer has to match."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises ValueError if `schema` is not a JSON Schema."""
        # Only loops with a schema need the library.
        import jsonschema_rs  # noqa: PLC0415 - see above

        self._schema = schema
        try:
            # Offline: a `$ref` to an address must not make a request.
            self._validator = jsonschema_rs.validator_for(schema, offline=True)
        except jsonschema_rs.ValidationError as error:
            raise ValueError(f"output_schema is not a JSON Schema: {error.message}") from error

    @property
    def response_format(self) -> ResponseFormatJsonSchema:
        """The schema in the form that a request has."""
        return ResponseFormatJsonSchema(json_schema=self._schema)

    def check(self, answer: str) -> Checked:
        """Parse `answer`, which may be a fenced code block, and check it against the schema."""
        fenced = _FENCED.fullmatch(answer.strip())
        try:
            # Python accepts NaN and Infinity, which are not JSON.
            value = json.loads(fenced[1] if fenced else answer, parse_constant=_refuse)
        except ValueError as error:
            return Checked(None, [f"It is not JSON: {error}"])
        found = [_described(error) for error in self._validator.iter_errors(value)]
        return Checked(value, found[:_MOST_ERRORS])


def _described(error: Any) -> str:
    place = "/".join(map(str, error.instance_path))
    if place:
        return f"{error.message} (at `{place}`)"
    return error.message


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")
