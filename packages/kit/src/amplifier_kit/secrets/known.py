"""Known secret values, by name and by value."""

from __future__ import annotations

import functools
import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from pydantic import SecretStr

from amplifier_core.redaction import SENSITIVE_KEYS
from amplifier_kit.secrets.patterns import URL_PASSWORD

_VARIABLE_WORDS = frozenset(
    {"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "DSN"}
)
_FIELD = re.compile(
    r"(?:^|[_-])(?:password|passwd|passphrase|secret"
    r"|(?:api|access|private|secret|signing|encryption)[_-]?key"
    r"|(?:access|refresh|auth|bearer|session|bot|api)[_-]?token"
    r"|secret[_-]access[_-]key)\Z"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name holds a secret: `GITHUB_TOKEN` does."""
    words = {word.removesuffix("S") for word in re.split(r"[_.-]", name.upper())}
    return not words.isdisjoint(_VARIABLE_WORDS) and "PUBLIC" not in words


@functools.lru_cache(maxsize=4_096)
def is_secret_field(name: str) -> bool:
    """Whether a field of this name holds a secret: `api_key` and `clientSecret` do."""
    if len(name) > 100:
        return False
    lowered = _CAMEL.sub("_", name).lower()
    return lowered in SENSITIVE_KEYS or _FIELD.search(lowered) is not None


# Strings, or a function that returns them: what an app knows beyond environment and plan.
CAPABILITY = "secrets.known"

_SHORTEST = 8
_SHORTEST_WORD = 16
_SHORTEST_NUMBER = 12
# From the standard alphabet of base64 to the one for URLs.
_IN_URLS = str.maketrans("+/", "-_")


def known_secrets(coordinator: Any, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the secrets of a session, each with the name to show in its place.

    Each secret is included in every form in which it may appear: plain, in a URL, in JSON, in
    base64. Longer ones come first, so that none is blanked only in part.
    """
    of_process = _of_environment(tuple(environ.items()))
    named = {**_in_all_forms(_of_session(coordinator)), **of_process}
    return dict(sorted(named.items(), key=lambda item: len(item[0]), reverse=True))


# Cached: it is the same for all sessions of a process, and needed several times in every turn.
@functools.lru_cache(maxsize=4)
def _of_environment(variables: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return _in_all_forms(_of_variables(variables))


def _in_all_forms(secrets: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return all forms of the secrets that are distinctive enough, with their names."""
    named: dict[str, str] = {}
    for name, value in secrets:
        if _is_telling(value):
            for form in _forms(value):
                named.setdefault(form, name)
    return named


def _forms(value: str) -> Iterator[str]:
    yield from (value, quote(value, safe=""), json.dumps(value)[1:-1])
    data = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        # Base64 encodes groups of three bytes, so a secret has three encodings, depending on how
        # much precedes it. Only characters that encode nothing but the secret are searched for.
        first = -(before * 8 // -6)
        last = (before + len(data)) * 8 // 6
        encoded = b64encode(bytes(before) + data).decode()[first:last]
        yield from (encoded, encoded.translate(_IN_URLS))


def _of_variables(variables: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in variables:
        if is_secret_variable(name):
            yield name, value
        for password in URL_PASSWORD.findall(value):
            yield name, password


def _of_session(coordinator: Any) -> Iterator[tuple[str, str]]:
    yield from _in_plan("config", coordinator.config)
    told: Any = coordinator.get_capability(CAPABILITY)
    values: Any = told() if callable(told) else told
    for value in cast("Iterable[Any]", values or ()):
        yield "secret", _revealed(value)


def _in_plan(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the secrets of a mount plan with the names of their keys."""
    if isinstance(value, Mapping):
        for key, held in cast("Mapping[Any, Any]", value).items():
            yield from _in_plan(str(key), held)
    elif isinstance(value, list | tuple):
        for held in cast("list[Any]", value):
            yield from _in_plan(name, held)
    elif isinstance(value, SecretStr) or (isinstance(value, str) and is_secret_field(name)):
        yield name, _revealed(value)


def _revealed(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value)


def _is_telling(value: str) -> bool:
    """Whether a value is rare enough that blanking it everywhere does no harm.

    A plain word, a small number, the name of another variable and the path of a file are not.
    """
    if len(value) < _SHORTEST or value.startswith("${"):
        return False
    if (value.isalpha() and len(value) < _SHORTEST_WORD) or (
        value.isdigit() and len(value) < _SHORTEST_NUMBER
    ):
        return False
    return not (value.startswith(("/", "~", "./")) and _exists(value))


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
