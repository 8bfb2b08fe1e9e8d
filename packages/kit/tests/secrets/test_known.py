"""Tests of the secrets that are known: where they come from, and which are too plain to blank."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from amplifier_core.testing import MockCoordinator
from amplifier_kit.secrets.known import is_secret_field, is_secret_variable, known_secrets


def coordinator(config: dict[str, Any] | None = None) -> MockCoordinator:
    made = MockCoordinator()
    made._config = config or {}
    return made


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "API_KEYS"],
)
def test_variables_with_telling_names_are_known(name: str) -> None:
    assert is_secret_variable(name)
    assert known_secrets(coordinator(), {name: "s3cr3t-value"})["s3cr3t-value"] == name


@pytest.mark.parametrize("name", ["PATH", "PWD", "KEYBOARD", "SSH_AUTH_SOCK", "RSA_PUBLIC_KEY"])
def test_other_variables_are_not(name: str) -> None:
    assert not is_secret_variable(name)
    assert known_secrets(coordinator(), {name: "s3cr3t-value"}) == {}


@pytest.mark.parametrize("name", ["api_key", "apiKey", "client_secret", "DB_PASSWORD", "x-api-key"])
def test_fields_with_telling_names_are_secret(name: str) -> None:
    assert is_secret_field(name)


@pytest.mark.parametrize("name", ["key", "max_tokens", "next_page_token", "keyboard", "k" * 200])
def test_other_fields_are_not(name: str) -> None:
    assert not is_secret_field(name)


@pytest.mark.parametrize("value", ["short1", "postgres", "12345678", "${OTHER_VALUE}", __file__])
def test_values_too_plain_to_blank_everywhere_are_not_known(value: str) -> None:
    assert known_secrets(coordinator(), {"SOME_TOKEN": value}) == {}


def test_a_path_that_does_not_exist_is_a_value_like_any_other(tmp_path: Path) -> None:
    value = f"{tmp_path}/missing"

    assert value in known_secrets(coordinator(), {"SOME_TOKEN": value})


def test_the_password_in_a_url_of_any_variable_is_known() -> None:
    environ = {"DATABASE_URL": "postgres://app:Tr0ub4dor@db/app"}

    known = known_secrets(coordinator(), environ)

    assert known["Tr0ub4dor"] == "DATABASE_URL"
    assert "app:Tr0ub4dor" not in known


def test_the_keys_of_the_mount_plan_are_known() -> None:
    plan = {
        "providers": [
            {
                "module": "provider-a",
                "config": {"api_key": "plan-key-0001", "model": "big-model-1"},
            },
            {"module": "provider-b", "config": {"login": SecretStr("wrapped-key-2")}},
        ]
    }

    known = known_secrets(coordinator(plan), {})

    assert (known["plan-key-0001"], known["wrapped-key-2"]) == ("api_key", "login")
    assert set(known.values()) == {"api_key", "login"}


@pytest.mark.parametrize("is_called", [True, False])
def test_the_app_can_tell_what_it_knows(is_called: bool) -> None:
    values = ["app-secret-1", SecretStr("app-secret-2")]
    made = coordinator()
    made.register_capability("secrets.known", (lambda: values) if is_called else values)

    assert {"app-secret-1", "app-secret-2"} <= set(known_secrets(made, {}))


def test_a_secret_is_known_in_every_form_and_the_longest_comes_first() -> None:
    known = list(known_secrets(coordinator(), {"A_TOKEN": 'p"ss/word 1', "B_TOKEN": "x" * 30}))

    assert known == sorted(known, key=len, reverse=True)
    assert {'p"ss/word 1', "p%22ss%2Fword%201", 'p\\"ss/word 1'} <= set(known)


def test_a_session_without_a_plan_knows_the_environment() -> None:
    bare = SimpleNamespace(config=None, get_capability=lambda name: None)  # pyright: ignore[reportUnknownLambdaType] - a double

    assert known_secrets(bare, {"A_TOKEN": "s3cr3t-value"})["s3cr3t-value"] == "A_TOKEN"


@pytest.mark.attack("K1")
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("secret", ["s3cr3t-value", "\u00fe\u00ff?>~\u00fb\u00ef\u00be 12345"])
def test_a_secret_is_known_in_base64_wherever_it_begins(
    secret: str, before: str, encode: Callable[[bytes], bytes]
) -> None:
    known = known_secrets(coordinator(), {"A_TOKEN": secret})
    encoded = encode(f"{before}{secret} and more".encode()).decode()

    (found,) = [form for form in known if form in encoded]
    assert len(found) >= len(secret.encode()) * 8 // 6 - 1
