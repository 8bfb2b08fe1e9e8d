"""Tests of the capability words."""

from __future__ import annotations

from amplifier_core import capabilities

WORDS_TEXT = """
tools streaming thinking vision json_mode fast code_execution web_search deep_research local audio
image_generation computer_use embeddings long_context batch
"""
WORDS = WORDS_TEXT.split()


def test_the_well_known_capabilities_are_a_list_in_the_published_order() -> None:
    assert capabilities.ALL_WELL_KNOWN_CAPABILITIES == WORDS


def test_every_word_has_a_constant_of_its_name() -> None:
    assert [getattr(capabilities, word.upper()) for word in WORDS] == WORDS
