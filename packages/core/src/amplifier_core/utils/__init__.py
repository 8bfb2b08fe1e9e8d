"""Names that published modules import from here; they are defined in `redaction` and `retry`."""

from __future__ import annotations

from amplifier_core.redaction import SENSITIVE_KEYS, redact_secrets, truncate_values
from amplifier_core.retry import RetryConfig, classify_error_message, retry_with_backoff

__all__ = [
    "SENSITIVE_KEYS",
    "RetryConfig",
    "classify_error_message",
    "redact_secrets",
    "retry_with_backoff",
    "truncate_values",
]
