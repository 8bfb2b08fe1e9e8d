"""Names that say that what they name is a secret."""

from __future__ import annotations

import functools
import re

from amplifier_core.redaction import SENSITIVE_KEYS

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
