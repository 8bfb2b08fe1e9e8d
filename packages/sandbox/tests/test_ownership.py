"""What another user could have written is named, with a command that works."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from amplifier_sandbox.ownership import exposure_in, exposure_of, is_own_place

if sys.platform == "win32":
    raise pytest.skip.Exception("Windows has no owners and modes of files", allow_module_level=True)
else:
    import grp
    import pwd

OTHER_USER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Amplifier's own files, in a home folder with a blank in its name."""
    folder = tmp_path / "bob b" / ".amplifier"
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    return folder


@pytest.fixture
def settings(home: Path) -> Path:
    """A file in it."""
    path = home / "settings.yaml"
    path.touch(mode=0o644)
    return path


def test_a_file_that_only_its_user_can_write_is_not_exposed(settings: Path) -> None:
    assert exposure_of(settings) is None
    assert exposure_of(settings, settings.stat()) is None
    assert exposure_in(settings.parent) is None


class Account(NamedTuple):
    """What the system knows of a user or a group."""

    pw_name: str = "bob"
    pw_uid: int = 0
    pw_gid: int = 0
    pw_dir: str = "/"
    gr_name: str = "bob"
    gr_mem: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("group", "others", "is_private"),
    [
        (Account(), [], True),
        (Account(gr_mem=("bob",)), [], True),
        (Account(gr_name="staff"), [], False),
        (Account(gr_mem=("bob", "eve")), [], False),
        (Account(), ["eve"], False),
    ],
    ids=["own", "own and named", "another name", "a second member", "a second user"],
)
def test_a_group_that_is_the_users_alone_may_write(
    settings: Path,
    monkeypatch: pytest.MonkeyPatch,
    group: Account,
    others: list[str],
    is_private: bool,
) -> None:
    settings.chmod(0o620)
    number = settings.stat().st_gid
    user = os.geteuid() or 1000
    bob = Account(pw_uid=user, pw_gid=number)
    accounts = [bob, *(Account(name, user + 1, number) for name in others)]
    monkeypatch.setattr(os, "geteuid", lambda: user)

    def named(number: int) -> Account:
        return bob if number == user else group

    monkeypatch.setattr(pwd, "getpwuid", named)
    monkeypatch.setattr(pwd, "getpwall", lambda: accounts)
    monkeypatch.setattr(grp, "getgrgid", lambda number=number: group)

    assert (exposure_of(settings) is None) is is_private
    settings.chmod(0o602)
    assert exposure_of(settings) is not None


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o777])
def test_a_file_that_others_can_write_is_named_with_the_command_that_fixes_it(
    settings: Path, mode: int
) -> None:
    settings.chmod(mode)

    exposure = exposure_of(settings)

    assert exposure is not None
    assert exposure.path == settings
    assert f"{mode:04o}" in exposure.why
    assert exposure.fix == f"chmod go-w {shlex.quote(str(settings))}"
    subprocess.run(["sh", "-c", exposure.fix], check=True)
    assert exposure_of(settings) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_above_is_named_before_what_is_in_it(
    home: Path, settings: Path, mode: int
) -> None:
    settings.chmod(0o666)
    home.chmod(mode)

    exposure = exposure_of(settings)

    assert exposure is not None
    assert exposure.path == home


def test_the_home_folder_counts_and_what_is_above_it_does_not(
    home: Path, settings: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    assert exposure_of(settings) is None

    home.parent.chmod(0o775)
    exposure = exposure_of(settings)
    assert exposure is not None
    assert exposure.path == home.parent


def test_outside_of_the_home_folder_everything_above_counts(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "shared" / "amplifier"
    elsewhere.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("AMPLIFIER_HOME", str(elsewhere))
    assert exposure_of(elsewhere) is None

    elsewhere.parent.chmod(0o777)
    assert exposure_of(elsewhere) is not None
    # As /tmp: others can add names there, and cannot touch ours.
    elsewhere.parent.chmod(0o1777)
    assert exposure_of(elsewhere) is None


def test_a_link_is_judged_by_what_it_leads_to(settings: Path, tmp_path: Path) -> None:
    target = tmp_path / "bob b" / "dotfiles" / "settings.yaml"
    target.parent.mkdir()
    target.touch(mode=0o644)
    settings.unlink()
    settings.symlink_to(target)
    assert is_own_place(settings)
    assert exposure_of(settings) is None

    target.parent.chmod(0o777)
    exposure = exposure_of(settings)
    assert exposure is not None
    assert exposure.path == target.parent


@as_root
def test_the_open_file_is_judged_and_not_what_took_its_name(settings: Path) -> None:
    with settings.open() as file:
        os.chown(file.fileno(), OTHER_USER, -1)
        settings.unlink()
        settings.touch(mode=0o644)

        assert exposure_of(settings) is None
        assert exposure_of(settings, os.fstat(file.fileno())) is not None


@as_root
def test_what_belongs_to_another_user_is_set_aside(settings: Path) -> None:
    os.chown(settings, OTHER_USER, OTHER_USER)
    settings.with_name("settings.yaml.refused").touch()

    exposure = exposure_of(settings)

    assert exposure is not None
    subprocess.run(["sh", "-c", exposure.fix], check=True)
    assert not settings.exists()
    assert settings.with_name("settings.yaml.refused-2").stat().st_uid == OTHER_USER


@as_root
def test_a_home_folder_of_another_user_is_left_for_one_of_ones_own(
    home: Path, settings: Path
) -> None:
    os.chown(home.parent, OTHER_USER, OTHER_USER)

    exposure = exposure_of(settings)

    assert exposure is not None
    assert exposure.path == home.parent
    assert exposure.fix.startswith("export AMPLIFIER_HOME=")


def test_one_file_deep_in_a_folder_exposes_the_folder(home: Path) -> None:
    deep = home / "mods" / "a" / "b.py"
    deep.parent.mkdir(parents=True)
    deep.touch(mode=0o644)
    (home / "mods" / ".git").mkdir()
    (home / "mods" / ".git" / "index").touch(mode=0o666)
    assert exposure_in(home / "mods") is None

    deep.chmod(0o664)
    exposure = exposure_in(home / "mods")
    assert exposure is not None
    assert exposure.path == deep


def test_only_the_folder_of_own_files_is_ones_own_place(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)

    assert is_own_place(home / "x")
    assert is_own_place(tmp_path / "link" / "x")
    assert not is_own_place(home.parent / "project")
