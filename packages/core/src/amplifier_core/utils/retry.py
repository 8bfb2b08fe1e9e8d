"""The import path of published providers for the names in `amplifier_core.retry`."""

from __future__ import annotations

from amplifier_core.retry import RetryConfig, classify_error_message, retry_with_backoff

__all__ = ["RetryConfig", "classify_error_message", "retry_with_backoff"]
