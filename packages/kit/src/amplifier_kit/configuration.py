"""Validation of a module's configuration; an error names the key and the likely correct one."""

from __future__ import annotations

from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from amplifier_core.errors import ModuleValidationError

Config = TypeVar("Config", bound=BaseModel)

_MOST_PROBLEMS = 3
_MOST_CHARS = 200


def read_config(model: type[Config], given: Any, module_id: str) -> Config:
    """Validate a module's configuration from the mount plan.

    Raises:
        ModuleValidationError: it is invalid. The message is one line without the values.
    """
    try:
        return model.model_validate({} if given is None else given)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        told = [_told(model, cast("dict[str, Any]", each)) for each in problems[:_MOST_PROBLEMS]]
        more = len(problems) - len(told)
        if more:
            told.append(f"And {more} more.")
        # `from None`: pydantic's own message quotes the values, and they may be secrets.
        message = f"The configuration of {module_id} cannot be used: {' '.join(told)}"
        raise ModuleValidationError(message, module_id=module_id) from None


def _told(model: type[BaseModel], problem: dict[str, Any]) -> str:
    place: tuple[int | str, ...] = problem["loc"]
    if problem["type"] != "extra_forbidden":
        return f"`{_path(place) or 'config'}`: {problem['msg']}."[:_MOST_CHARS]
    key = str(place[-1])
    above = _path(place[:-1])
    where = f" in `{above}`" if above else ""
    return f"`{key}`{where} is not a valid key.{_hint(key, _model_at(model, place[:-1]))}"


def _path(place: tuple[int | str, ...]) -> str:
    """Return where a value is, as in `rules[0].tool`."""
    path = ""
    for part in place:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".")


def _hint(key: str, model: type[BaseModel]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

    known = list(model.model_fields)
    close = get_close_matches(key, known, n=1)
    if close:
        return f" Did you mean `{close[0]}`?"
    return f" Valid are: {', '.join(known)}."


def _model_at(model: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model that validates the mapping at a place; list indices are skipped."""
    for part in place:
        field = model.model_fields.get(str(part))
        inner = None if field is None else _model_in(field.annotation)
        model = inner or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(each) for each in get_args(annotation))
    return next((each for each in found if each is not None), None)
