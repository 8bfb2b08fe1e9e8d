"""What is known of OpenAI's models, by their names."""

from __future__ import annotations

from typing import NamedTuple

from amplifier_module_provider_openai.config import OPENAI

# Begins of the names of models that do not think, and refuse to be asked for it.
_PLAIN = ("gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat", "ft:gpt-3", "ft:gpt-4")
# Parts of the names of models that write no answers.
_NOT_FOR_ANSWERS = (
    "audio",
    "babbage",
    "dall-e",
    "davinci",
    "embedding",
    "image",
    "instruct",
    "live",
    "moderation",
    "realtime",
    "search-api",
    "sora",
    "transcribe",
    "translate",
    "tts",
    "whisper",
)


class Limits(NamedTuple):
    """Tokens a model can read and write."""

    context_window: int
    max_output_tokens: int


# By the begin of a model's name, the longer before the shorter. The price data has windows too, but
# is loaded late, and a memory that budgets by them must not see them change.
_LIMITS = {
    ("gpt-5.4-mini", "gpt-5.4-nano"): Limits(400_000, 128_000),
    ("gpt-6", "gpt-5.6", "gpt-5.4"): Limits(1_050_000, 128_000),
    ("gpt-5.5",): Limits(1_000_000, 128_000),
    ("gpt-5",): Limits(400_000, 128_000),
    ("gpt-4.1",): Limits(1_000_000, 32_768),
    ("o1", "o3", "o4"): Limits(200_000, 100_000),
    ("",): Limits(128_000, 16_384),
}


def limits_of(model: str) -> Limits:
    """Return a model's limits; for one that nobody knows, limits that most models reach."""
    return next(limits for begins, limits in _LIMITS.items() if model.startswith(begins))


def can_think(model: str) -> bool:
    """Whether a model can be asked to think, and for its encrypted thoughts."""
    return not model.startswith(_PLAIN)


def for_answers(models: list[str], origin: str) -> list[str]:
    """Return those of OpenAI's models that write answers; of another server's, all."""
    if origin != OPENAI:
        return models
    return [model for model in models if not any(part in model for part in _NOT_FOR_ANSWERS)]
