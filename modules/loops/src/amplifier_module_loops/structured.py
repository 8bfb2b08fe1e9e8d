"""An answer in the form of a JSON Schema: reading it, checking it, saying what is wrong."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from amplifier_core.message_models import ResponseFormatJsonSchema

_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_MOST_ERRORS = 10


class Checked(NamedTuple):
    """An answer that was checked: its value when there are no errors."""

    value: Any
    errors: list[str]

    @property
    def text(self) -> str:
        """The value as JSON, always written the same way."""
        return json.dumps(self.value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


class OutputSchema:
    """The schema an answer has to fit."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises ValueError when `schema` is not a JSON Schema."""
        # Only loops that are given a schema need the library.
        import jsonschema_rs  # noqa: PLC0415 - see above

        self._schema = schema
        try:
            self._validator = jsonschema_rs.validator_for(schema, offline=True)
        except jsonschema_rs.ValidationError as error:
            raise ValueError(f"output_schema is not a JSON Schema: {error.message}") from error

    @property
    def response_format(self) -> ResponseFormatJsonSchema:
        """The schema as a request carries it."""
        return ResponseFormatJsonSchema(json_schema=self._schema)

    def check(self, answer: str) -> Checked:
        """Read `answer`, which may be fenced as a code block, and hold it against the schema."""
        fenced = _FENCED.fullmatch(answer.strip())
        try:
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
