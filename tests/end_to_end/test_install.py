"""What a new user does first: the commands of the README, on a clone, in a fresh environment."""

from __future__ import annotations

import faulthandler
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from amplifier_foundation.bundles.providers import KEYS
from amplifier_foundation.config.named_files import parts_of
from docs.terminal_blocks import commands_of, complaints, documents_with_commands
from end_to_end.model_server import ModelServer, Said
from modules_on_disk import modules

_ROOT = Path(__file__).parents[2]
_CLONED = (
    "packages",
    "modules",
    "tools",
    "install.sh",
    "LICENSE",
    "requirements.txt",
    "constraints.txt",
    "conftest.py",
    "pyproject.toml",
)
_DEFAULT = "packages/foundation/src/amplifier_foundation/bundles/default/bundle.md"
_SECONDS = 900
# What a page needs beyond the installation of the README, in its own words.
_NEEDS = dict.fromkeys(
    ("docs/guides/durable-sessions.md", "packages/runtime/README.md"), "./install.sh durable"
)
_FOREIGN_KERNEL = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "amplifier-core"
version = "2.0.3"
"""
_LEFT_OUT = shutil.ignore_patterns("tests", "__pycache__", ".*", "build")


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Return what the clone goes without; the tests of a new module are part of the command."""
    ignored = set(_LEFT_OUT(folder, names))
    if "templates" in Path(folder).parts:
        ignored.discard("tests")
    return ignored


class Clone(NamedTuple):
    """A clone with its environment, and what the README says to type in it last."""

    folder: Path
    first_prompt: str

    @property
    def home(self) -> Path:
        """The home of the user."""
        return self.folder.parent / "home"

    def environment(self) -> dict[str, str]:
        """Return what the user's shell has, with this machine's settings for pip."""
        bin_folder = self.home / ".local" / "bin"
        python = Path(sys.base_prefix) / "bin"
        return {
            **os.environ,
            "AMPLIFIER_INSTALL": str(self.home / ".local" / "share" / "amplifier"),
            "AMPLIFIER_BIN": str(bin_folder),
            "AMPLIFIER_HOME": str(self.home / ".amplifier"),
            "PATH": f"{bin_folder}{os.pathsep}{python}{os.pathsep}{os.environ['PATH']}",
        }

    def ask(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Type the first prompt in a terminal that knows nothing of this machine's keys."""
        path = f"{self.home}/.local/bin:/usr/local/bin:/usr/bin:/bin"
        clean = {"HOME": str(self.home), "PATH": path, "LC_ALL": "C.UTF-8"}
        return _bash(self.first_prompt, self.folder, clean | environment)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """Install a copy of this repository as the README says."""
    folder = tmp_path_factory.mktemp("user") / "amplifier"
    folder.mkdir()
    for name in _CLONED:
        if (_ROOT / name).is_dir():
            shutil.copytree(_ROOT / name, folder / name, ignore=_left_out)
        else:
            shutil.copy(_ROOT / name, folder)
    # Building 21 packages may take longer than a test may hang; `_SECONDS` limits it.
    faulthandler.cancel_dump_traceback_later()
    *install, first_prompt = _first_commands()
    made = Clone(folder, first_prompt)
    # Where packages come from is this machine's business, so its settings for pip stay.
    done = _bash("set -e\n" + "\n".join(install), folder, made.environment())
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.slow
def test_one_line_leads_from_a_clone_to_an_answer_that_says_who_gave_it(clone: Clone) -> None:
    answered = clone.ask()

    assert answered.returncode == 0, answered.stderr
    assert "requirements.txt" in answered.stdout
    assert "No model configured; using the mock model." in answered.stderr


@pytest.mark.slow
def test_with_the_address_of_a_server_the_first_answer_is_the_servers(clone: Clone) -> None:
    with ModelServer([Said(["A clone of ", "Amplifier."])]) as server:
        answered = clone.ask(OPENAI_BASE_URL=server.url)

    assert answered.stdout == "A clone of Amplifier.\n", answered.stderr
    assert f"chat-completions: OPENAI_BASE_URL is {server.url}." in answered.stderr
    assert server.requests[0]["messages"][-1]["content"] == "what is in this folder?"


@pytest.mark.slow
def test_the_doctor_of_a_new_installation_starts_every_guard(clone: Clone) -> None:
    script = "amplifier doctor\namplifier tool list"

    done = _bash(script, clone.folder, clone.environment())

    assert done.returncode == 0, done.stdout + done.stderr
    assert "redaction, approval, taint, budget" in done.stdout
    assert "write_file" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_command_of_an_extra_names_the_line_that_installs_it(clone: Clone) -> None:
    environment = clone.environment()
    places = " ".join(
        f"{name}={environment[name]}" for name in ("AMPLIFIER_INSTALL", "AMPLIFIER_BIN")
    )

    done = _bash("amplifier worker", clone.folder, environment)

    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == [
        "why    It is part of `amplifier-runtime`, which is not installed.",
        f"next   {places} {clone.folder}/install.sh durable",
    ]


@pytest.mark.slow
def test_a_new_module_is_checked_whatever_the_clone_configures_for_pytest(clone: Clone) -> None:
    script = (
        "set -e\ncd ..\namplifier module new tool-greet\n"
        "amplifier module validate ./tool-greet\namplifier module test ./tool-greet\n"
    )

    done = _bash(script, clone.folder, clone.environment())

    assert done.returncode == 0, done.stdout + done.stderr
    assert "behaviour  7 of 7 checks passed" in done.stdout
    assert " passed" in done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_after_a_foreign_kernel_was_installed_the_repair_that_is_shown_works(
    clone: Clone, tmp_path: Path
) -> None:
    foreign = tmp_path / "amplifier-core"
    (foreign / "amplifier_core").mkdir(parents=True)
    (foreign / "amplifier_core" / "__init__.py").write_text("", encoding="utf-8")
    (foreign / "pyproject.toml").write_text(_FOREIGN_KERNEL, encoding="utf-8")
    pip = clone.home / ".local/share/amplifier/bin/python -m pip"
    replaced = _bash(f"{pip} install -q {foreign}", clone.folder, clone.environment())
    assert replaced.returncode == 0, replaced.stderr

    refused = clone.ask()
    _, _, fix = refused.stderr.splitlines()
    repaired = _bash(fix.removeprefix("next   "), clone.folder.parent, clone.environment())

    assert refused.returncode == 1
    assert repaired.returncode == 0, repaired.stderr
    assert clone.ask().returncode == 0


@pytest.mark.slow
def test_what_the_documents_show_comes_in_a_new_installation(clone: Clone, tmp_path: Path) -> None:
    programs = clone.home / ".local" / "share" / "amplifier" / "bin"
    found: list[str] = []
    for number, document in enumerate(documents_with_commands()):
        text = (_ROOT / document).read_text(encoding="utf-8")
        if document in _NEEDS:
            # The page says so, and the other gate types it where everything is installed.
            assert _NEEDS[document] in text
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        # All pages together may take longer than one test may hang.
        faulthandler.cancel_dump_traceback_later()
        found += complaints(document, commands_of(text), folder, programs)

    assert not found, "\n\n".join(found)


def test_what_is_installed_is_what_the_default_bundle_and_the_detection_name() -> None:
    bundle, _ = parts_of(_ROOT / _DEFAULT)
    guards, _ = parts_of((_ROOT / _DEFAULT).with_name("guards.yaml"))
    session: dict[str, dict[str, Any]] = bundle["session"]
    named = {each["module"] for each in (*session.values(), *bundle["tools"], *guards["hooks"])}
    named |= {*KEYS, "provider-chat-completions", "provider-mock"}

    lines = (_ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((_ROOT / "packages/cli/pyproject.toml").read_text(encoding="utf-8"))
    needed = {each.partition("==")[0] for each in project["project"]["dependencies"]}

    folders = {each.folder.name for each in modules(_ROOT) if each.module_id in named}
    assert {Path(line).name for line in lines if line.startswith("./modules/")} == folders
    assert {f"amplifier-module-{each}" for each in folders} <= needed


def _first_commands() -> list[str]:
    """Return the first block of the README that installs something."""
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    installing = (block for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    return next(block for block in installing if "install.sh" in block).strip().splitlines()


def _bash(script: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )
