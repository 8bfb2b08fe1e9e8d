"""A request as its caller means it: with the fields that keyword arguments replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_core.message_models import ChatRequest, Degradation

# The one keyword that is no field of a request: loops ask for thinking with it.
_THINKING = "extended_thinking"


def overridden(
    request: ChatRequest, arguments: Mapping[str, Any], *, provider: str
) -> tuple[ChatRequest, list[Degradation]]:
    """Return the request with what keyword arguments replace, and a shortfall for each unknown one.

    Only the arguments are validated, and the request that was given stays as it is.

    Raises:
        InvalidRequestError: it is no request, or an argument does not fit its field.
    """
    if not isinstance(request, ChatRequest):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not checked
        message = f"A request is a ChatRequest, not a {type(request).__name__}"
        raise InvalidRequestError(message, provider=provider)
    known = {*ChatRequest.model_fields, _THINKING}
    given = {name: value for name, value in arguments.items() if name in known}
    ignored = [
        Degradation(requested=f"`{name}`", actual="nothing", reason="no such argument is known")
        for name in arguments
        if name not in known
    ]
    if not given:
        return request, ignored
    try:
        checked = ChatRequest.model_validate({"messages": [], **given})
    except ValidationError as error:
        raise InvalidRequestError(str(error), provider=provider) from error
    return request.model_copy(update={name: getattr(checked, name) for name in given}), ignored


def with_options(
    request: ChatRequest, options: dict[str, Any]
) -> tuple[ChatRequest, dict[str, Any]]:
    """Return a request with those of the options that are fields of it, and the other options.

    For whoever passes both on to a provider, which validates them with `overridden`.
    """
    rest = dict(options)
    if "max_tokens" in rest:
        rest["max_output_tokens"] = rest.pop("max_tokens")
    fields = {key: rest.pop(key) for key in list(rest) if key in ChatRequest.model_fields}
    return request.model_copy(update=fields), rest


def extended_thinking(request: ChatRequest) -> bool | None:
    """Return whether the caller asked for thinking; None: not a word about it."""
    return (request.model_extra or {}).get(_THINKING)
