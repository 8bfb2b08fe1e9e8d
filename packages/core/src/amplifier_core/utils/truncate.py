"""The import path of published modules for the names in `amplifier_core.redaction`."""

from __future__ import annotations

from amplifier_core.redaction import SENSITIVE_KEYS, redact_secrets, truncate_values

__all__ = ["SENSITIVE_KEYS", "redact_secrets", "truncate_values"]
