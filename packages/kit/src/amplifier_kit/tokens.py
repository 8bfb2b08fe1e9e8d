"""Tokens, where nobody has counted them."""

from __future__ import annotations

__all__ = ["CHARS_PER_TOKEN"]

# What English text and code come to with the usual vocabularies; other scripts need fewer.
CHARS_PER_TOKEN = 4
