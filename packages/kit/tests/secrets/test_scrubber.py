"""Tests of the scrubber: what it blanks, what it leaves alone, and how long it takes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.secrets.patterns import PATTERNS
from amplifier_kit.secrets.scrubber import MARK_START, Scrubber
from end_to_end.secret_examples import EXAMPLES

Planted = tuple[str, str, str]

HARMLESS = [
    "The task-management-for-large-projects-and-people branch is ready.",
    "token = config.get_secret_v2_from_store(name)",
    "api_key = os.environ['ANTHROPIC_API_KEY']",
    "secret_key = settings.secret_key",
    "password: required, at least 8 characters",
    "max_tokens=4096, input_tokens: 12345678",
    "https://example.org:8080/a/b?c=d",
    "user@example.org wrote to http://example.org/@someone",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "id 123e4567-e89b-12d3-a456-426614174000",
    "The bearer of responsibilities arrives.",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "The key is under the mat: 42.",
    "TOKEN=/usr/lib/python3.11/site-packages/token1",
    "token: ${GITHUB_TOKEN_2026_PRODUCTION}",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
]


@pytest.mark.attack("K1")
@pytest.mark.parametrize(
    "around",
    ["{}", "said: {} and more", '"{}",', "x={}&y", "line\n{}\nline", "\\n{}\\n"],
    ids=["alone", "prose", "quoted", "query", "lines", "escaped lines"],
)
def test_each_kind_of_secret_is_blanked_wherever_it_stands(planted: Planted, around: str) -> None:
    _, example, secret = planted

    clean, found = Scrubber().scrub_text(around.format(example))

    assert secret[:10] not in clean
    assert secret[-10:] not in clean
    assert MARK_START in clean
    assert found.total() == 1


def test_a_marker_names_the_kind(planted: Planted) -> None:
    kind, example, _ = planted

    clean, found = Scrubber().scrub_text(example)

    assert found == {kind: 1}
    assert f"{MARK_START}{kind}]" in clean


@pytest.mark.attack("K1")
def test_each_kind_of_secret_is_blanked_inside_a_text_of_json(planted: Planted) -> None:
    _, example, secret = planted

    clean, _ = Scrubber().scrub_text(json.dumps({"a": [f"before\n{example}\n; after"]}))

    assert secret[:10] not in clean
    assert secret[-10:] not in clean
    assert "before" in clean
    assert "after" in clean


def test_every_pattern_has_an_example() -> None:
    assert {pattern.kind for pattern in PATTERNS} <= {kind.partition(",")[0] for kind in EXAMPLES}


def test_what_was_blanked_stays_as_it_is(planted: Planted) -> None:
    once, _ = Scrubber().scrub_text(f"see {planted[1]} there")

    twice, found = Scrubber().scrub_text(once)

    assert twice == once
    assert not found


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert Scrubber().scrub_text(text) == (text, {})


def test_known_values_are_blanked_by_name_before_anything_else() -> None:
    value = "ghp_" + "x" * 40
    scrubber = Scrubber({value: "GITHUB_TOKEN", "correct horse": "PASSPHRASE"})

    clean, found = scrubber.scrub_text(f"a {value} and correct horse")

    assert clean == "a [REDACTED:GITHUB_TOKEN] and [REDACTED:PASSPHRASE]"
    assert found == {"GITHUB_TOKEN": 1, "PASSPHRASE": 1}


def test_the_rest_of_a_url_stays() -> None:
    clean, _ = Scrubber().scrub_text("postgres://app:s3cret@db.example/app?x=1")

    assert clean == "postgres://app:[REDACTED:url-password]@db.example/app?x=1"


def test_data_is_scrubbed_at_every_depth_in_keys_and_in_fields_that_say_so() -> None:
    key = "sk-ant-" + "a1" * 20
    data = {"a": [{"b": f"see {key}"}], key: 1, "config": {"api_key": "plain", "password": ""}}

    clean, found = Scrubber().scrub(data)

    assert clean == {
        "a": [{"b": "see [REDACTED:anthropic-key]"}],
        "[REDACTED:anthropic-key]": 1,
        "config": {"api_key": "[REDACTED:secret-field]", "password": ""},
    }
    assert found == {"anthropic-key": 2, "secret-field": 1}
    assert key in data


def test_data_without_secrets_is_returned_as_the_same_object() -> None:
    data: dict[str, Any] = {"text": "hello", "usage": {"input_tokens": 3}, "ok": True, "n": None}

    clean, found = Scrubber().scrub(data)

    assert clean is data
    assert not found


def test_guesses_can_be_left_out() -> None:
    data = {"api_key": "plain", "text": "password=hunter22x", "url": "ftp://a:b1@host"}

    clean, found = Scrubber(guesses=False).scrub(data)

    assert clean == {**data, "url": "ftp://a:[REDACTED:url-password]@host"}
    assert found == {"url-password": 1}


@pytest.mark.parametrize(
    "piece",
    ["eyJ", "sk-ant-", "-----BEGIN PRIVATE KEY-----", "://a:", "password=", "key-", "1//0", "a"]
    + ["-----BEGIN ", "Bearer ", "Authorization: Basic ", "eyJaaaaaaaa.", "token: a1"],
)
def test_no_text_makes_a_search_slow(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        started = time.process_time()
        Scrubber().scrub_text(text)
        return time.process_time() - started

    seconds(1_000)
    assert seconds(200_000) < 1.0


@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    clean, found = Scrubber({"known-1234": "NAME"}).scrub_text(text)

    assert clean == text or found
