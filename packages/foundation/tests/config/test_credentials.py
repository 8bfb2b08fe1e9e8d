"""Keys: where they are looked for, and who else could see them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplifier_foundation.credentials import find_key
from amplifier_foundation.errors import SettingsError

Write = Callable[[str, str], Path]

NAME = "OPENAI_API_KEY"
KEY = "sk-0123456789abcdefghij-wxyz"


@pytest.fixture
def key_file(home: Path) -> Path:
    """The file with the user's keys."""
    path = home / "credentials.yaml"
    path.write_text(f"{NAME}: {KEY}\nOTHER: other\n", encoding="utf-8")
    path.chmod(0o600)
    return path


def test_the_environment_comes_before_the_file(key_file: Path) -> None:
    found = find_key(NAME, environ={NAME: "from the environment"})

    assert found is not None
    assert (found.value, found.origin) == ("from the environment", "environment")


def test_a_stored_key_is_found(key_file: Path) -> None:
    found = find_key(NAME, environ={NAME: ""})

    assert found is not None
    assert (found.value, found.origin) == (KEY, str(key_file))
    other = find_key("OTHER", environ={})
    assert other is not None
    assert other.value == "other"


def test_a_key_that_nobody_has_is_nothing(home: Path) -> None:
    assert find_key(NAME, environ={}) is None


Keyring = Callable[[str], None]


@pytest.fixture
def keyring(write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Keyring]:
    """Install a keyring whose only function has the given body."""

    def install(body: str) -> None:
        write("ring/keyring.py", f"def get_password(service, name):\n    {body}\n")
        monkeypatch.setattr(sys, "path", [str(tmp_path / "ring"), *sys.path])

    yield install
    sys.modules.pop("keyring", None)


def test_the_keyring_is_asked_last(home: Path, keyring: Keyring) -> None:
    keyring("return f'{service}/{name}'")

    found = find_key(NAME, environ={})

    assert found is not None
    assert (found.value, found.origin) == (f"amplifier/{NAME}", "keyring")


def test_a_keyring_that_fails_is_logged_and_has_no_key(
    home: Path, keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    keyring("raise OSError('no bus')")

    assert find_key(NAME, environ={}) is None
    assert "no bus" in caplog.text


@pytest.mark.attack("K2")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o602, 0o601, 0o777])
def test_a_file_that_others_have_access_to_is_not_read(mode: int, key_file: Path) -> None:
    key_file.chmod(mode)

    with pytest.raises(SettingsError) as error:
        find_key(NAME, environ={})

    assert error.value.fix == f"chmod 600 {key_file}"
    assert KEY not in str(error.value)


@pytest.mark.attack("K2")
def test_a_link_to_a_file_that_others_can_read_is_not_followed_into_trust(
    home: Path, write: Write
) -> None:
    target = write("shared.yaml", f"{NAME}: {KEY}")
    target.chmod(0o644)
    (home / "credentials.yaml").symlink_to(target)

    with pytest.raises(SettingsError, match="chmod 600"):
        find_key(NAME, environ={})


@pytest.mark.attack("K2")
def test_no_representation_of_a_key_shows_it(home: Path) -> None:
    found = find_key(NAME, environ={NAME: KEY})
    short = find_key(NAME, environ={NAME: "hunter2"})

    assert KEY not in f"{found!r} {found!s} {found}"
    assert "...wxyz" in str(found)
    assert "nter2" not in f"{short!r} {short}"


@pytest.mark.attack("K2")
def test_a_broken_file_is_named_without_the_line_that_holds_the_key(key_file: Path) -> None:
    key_file.write_text(f"{NAME}: [{KEY}", encoding="utf-8")

    with pytest.raises(SettingsError) as error:
        find_key(NAME, environ={})

    assert KEY not in str(error.value)
    assert error.value.__suppress_context__


@pytest.mark.attack("K2")
def test_a_project_gives_no_keys(
    home: Path, project: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("project/.env", f"{NAME}={KEY}")
    for name in ("credentials.yaml", "settings.yaml"):
        write(f"project/.amplifier/{name}", f"{NAME}: {KEY}").chmod(0o600)
    monkeypatch.chdir(project)

    assert find_key(NAME, environ={}) is None
