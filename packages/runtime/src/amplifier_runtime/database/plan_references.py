"""References to keys in a plan, and detection of keys in clear.

A field whose name suggests a secret, and every header and environment variable of a module, may
refer to a key: `${NAME}` anywhere in its text, or a text that is `env:NAME`, `secret:NAME` or
`keyring:NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from amplifier_kit.secrets.known import is_secret_field, is_secret_variable
from amplifier_kit.secrets.scrubber import Scrubber
from amplifier_runtime.errors import ClearKeyError

__all__ = ["Reference", "clear_keys_in", "mapped", "references_in", "refuse_clear_keys"]

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"\$\{{({_NAME})\}}")
_WHOLE = re.compile(rf"(env|secret|keyring):({_NAME})")
# Mappings in which any value may refer to a key, whatever its name.
_MAPPINGS = frozenset({"headers", "env"})
_SCHEMES = frozenset({"", "basic", "bearer", "token"})
# Local servers that check no key are given a word such as `ollama` or `none`.
_LONGEST_WORD = 15


class Reference(NamedTuple):
    """A reference in a text: `place` is `any`, `env`, `secret` or `keyring`."""

    place: str
    name: str


class _Text(NamedTuple):
    """A text of a plan: its path, whether its name suggests a key, whether it may refer to one."""

    path: str
    text: str
    is_key: bool
    may_refer: bool


def references_in(text: str) -> list[Reference]:
    """Return the references in the text of a field."""
    whole = _WHOLE.fullmatch(text)
    if whole is not None:
        return [Reference(whole[1], whole[2])]
    return [Reference("any", name) for name in _VARIABLE.findall(text)]


def replaced(text: str, value_of: Callable[[Reference], str]) -> str:
    """Return a text with each of its references replaced by a value."""
    whole = _WHOLE.fullmatch(text)
    if whole is not None:
        return value_of(Reference(whole[1], whole[2]))
    return _VARIABLE.sub(lambda match: value_of(Reference("any", match[1])), text)


def mapped(plan: Any, change: Callable[[str], str], name: str = "", *, may: bool = False) -> Any:
    """Return a copy of a plan in which every text that may refer to a key is changed."""
    if isinstance(plan, Mapping):
        items = cast("Mapping[str, Any]", plan).items()
        return {
            key: mapped(value, change, str(key), may=may or name in _MAPPINGS)
            for key, value in items
        }
    if isinstance(plan, list):
        return [mapped(each, change, name, may=may) for each in cast("list[Any]", plan)]
    if isinstance(plan, str) and (may or name in _MAPPINGS or _is_key_name(name)):
        return change(plan)
    return plan


def clear_keys_in(plan: Any) -> list[str]:
    """Return the paths in a plan whose text looks like a key in clear."""
    return [each.path for each in _texts(plan, "", "", may=False) if _is_clear(each)]


def refuse_clear_keys(plan: Any) -> None:
    """Raise ClearKeyError when a plan has a key in clear."""
    found = clear_keys_in(plan)
    if found:
        raise ClearKeyError(found)


def _texts(value: Any, path: str, name: str, *, may: bool) -> Iterator[_Text]:
    if isinstance(value, Mapping):
        for key, each in cast("Mapping[str, Any]", value).items():
            below = f"{path}.{key}" if path else str(key)
            yield from _texts(each, below, str(key), may=may or name in _MAPPINGS)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(cast("list[Any]", value)):
            yield from _texts(each, f"{path}[{number}]", name, may=may)
    elif isinstance(value, str):
        is_key = _is_key_name(name)
        yield _Text(path, value, is_key, may or is_key)


def _is_key_name(name: str) -> bool:
    if name.isupper():
        return is_secret_variable(name)
    return is_secret_field(name) or is_secret_field(name.removesuffix("s"))


def _is_clear(given: _Text) -> bool:
    if given.may_refer and _WHOLE.fullmatch(given.text):
        return False
    if given.may_refer:
        rest = _VARIABLE.sub("", given.text).strip()
    else:
        rest = given.text
    # Without guesses, only texts of the form of a known key match: anywhere in a plan, also in
    # the text of an instruction.
    if Scrubber(guesses=False).scrub_text(rest)[1]:
        return True
    if not given.is_key or rest.lower() in _SCHEMES:
        return False
    return not (rest.isalpha() and len(rest) <= _LONGEST_WORD)
