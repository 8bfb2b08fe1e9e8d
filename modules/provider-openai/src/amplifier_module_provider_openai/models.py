"""What is known about OpenAI's models by their names."""

from __future__ import annotations

from typing import NamedTuple

from amplifier_module_provider_openai.config import OPENAI

# Prefixes of models without reasoning, which refuse the parameter.
_PLAIN = ("gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat", "ft:gpt-3", "ft:gpt-4")
# Parts of the names of models that do not generate text answers.
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
    """The maximum input and output of a model, in tokens."""

    context_window: int
    max_output_tokens: int


# By prefix of the name, longer ones first. The price data has windows too, but it is loaded late,
# and contexts that budget by the window must not see it change.
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
    """Return a model's limits; for an unknown one, limits that most models have."""
    return next(limits for begins, limits in _LIMITS.items() if model.startswith(begins))


def can_think(model: str) -> bool:
    """Whether a model accepts a reasoning effort and returns encrypted reasoning."""
    return not model.startswith(_PLAIN)


def for_answers(models: list[str], origin: str) -> list[str]:
    """Return the models that generate answers; for a server other than OpenAI's, all."""
    if origin != OPENAI:
        return models
    return [model for model in models if not any(part in model for part in _NOT_FOR_ANSWERS)]
