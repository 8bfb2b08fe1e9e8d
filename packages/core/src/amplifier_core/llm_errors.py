"""Every way in which a call to a model can fail.

LLMError                          (R) = worth another attempt unless the raiser says otherwise
├── RateLimitError           (R)  429
│   └── QuotaExceededError        the account is empty; waiting does not help
├── AuthenticationError           401
│   └── AccessDeniedError         403
├── ContextLengthError            413, or the vendor's words for "too long"
├── ContentFilterError            the vendor's safety system blocked the call
├── InvalidRequestError           400, 422
├── ProviderUnavailableError (R)  5xx
│   └── NetworkError         (R)  no HTTP answer at all
├── LLMTimeoutError          (R)  no answer in time
├── NotFoundError                 404
├── StreamError              (R)  the answer broke off
├── AbortError                    the caller cancelled
├── InvalidToolCallError          tool_name, raw_arguments
└── ConfigurationError            the provider is not set up

A provider turns each exception of its vendor's SDK into one of these, raised `from` the original,
so that retry, failover and budgets can decide without knowing the vendor.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AbortError",
    "AccessDeniedError",
    "AuthenticationError",
    "ConfigurationError",
    "ContentFilterError",
    "ContextLengthError",
    "InvalidRequestError",
    "InvalidToolCallError",
    "LLMError",
    "LLMTimeoutError",
    "NetworkError",
    "NotFoundError",
    "ProviderUnavailableError",
    "QuotaExceededError",
    "RateLimitError",
    "StreamError",
]


class LLMError(Exception):
    """A model call failed.

    `retryable` says whether the same call may succeed later; without it the class decides.
    `retry_after` is the wait that the vendor asks for, in seconds. `delay_multiplier` scales the
    delay of `RetryConfig.compute_delay`, for failures that last longer than others.
    """

    _retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status_code: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        delay_multiplier: float = 1.0,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status_code = status_code
        self.retryable: bool = self._retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.delay_multiplier = delay_multiplier

    def __repr__(self) -> str:
        parts = [repr(str(self))]
        for name, silent in _SHOWN:
            value = getattr(self, name)
            if value != silent:
                parts.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


# The fields that `repr` lists, in this order, and the value for which each is left out.
_SHOWN: tuple[tuple[str, object], ...] = (
    ("provider", None),
    ("model", None),
    ("status_code", None),
    ("retryable", False),
    ("retry_after", None),
    ("delay_multiplier", 1.0),
)


class RateLimitError(LLMError):
    """Too many requests or tokens in a span of time (429)."""

    _retryable = True


class QuotaExceededError(RateLimitError):
    """A hard limit of the account is used up; only the account's owner can change that."""

    _retryable = False


class AuthenticationError(LLMError):
    """The credentials are missing or wrong (401)."""


class AccessDeniedError(AuthenticationError):
    """The credentials are valid but not allowed to do this (403)."""


class ContextLengthError(LLMError):
    """The request is longer than the model can read (413)."""


class ContentFilterError(LLMError):
    """The vendor's safety system refused the request or the answer."""


class InvalidRequestError(LLMError):
    """The vendor rejects the request as malformed (400, 422)."""


class ProviderUnavailableError(LLMError):
    """The vendor is overloaded or broken (5xx)."""

    _retryable = True


class NetworkError(ProviderUnavailableError):
    """No HTTP answer arrived: name resolution, connection or TLS failed."""


class LLMTimeoutError(LLMError):
    """No answer arrived in time."""

    _retryable = True


class NotFoundError(LLMError):
    """The model or endpoint does not exist (404)."""


class StreamError(LLMError):
    """A streamed answer ended before its terminal event."""

    _retryable = True


class AbortError(LLMError):
    """The caller cancelled the call."""


class InvalidToolCallError(LLMError):
    """The model asked for a tool in a way that cannot be carried out.

    `raw_arguments` is the text the model produced, if it could not be parsed.
    """

    def __init__(
        self,
        message: str,
        *,
        tool_name: str | None = None,
        raw_arguments: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        status_code: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(
            message,
            provider=provider,
            model=model,
            status_code=status_code,
            retryable=retryable,
        )
        self.tool_name = tool_name
        self.raw_arguments = raw_arguments


class ConfigurationError(LLMError):
    """The provider lacks a setting it cannot work without."""
