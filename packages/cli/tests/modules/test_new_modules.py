"""`module new`: what it writes validates, tests and runs at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Each starts the command, some of them often.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]

quick = "hooks-curfew"
slow = [
    pytest.param(each, marks=pytest.mark.slow)
    for each in ("tool-weather", "provider-acme", "loop-calm", "context-tiny")
]
every_kind = pytest.mark.parametrize("module_id", [quick, *slow])


@every_kind
def test_a_new_module_validates_and_its_tests_pass(
    amplifier: Command, project: Path, module_id: str
) -> None:
    made = amplifier("module", "new", module_id)
    assert made.returncode == 0, made.stderr
    validated = amplifier("module", "validate", f"./{module_id}", timeout=120)
    tested = amplifier("module", "test", f"./{module_id}", timeout=120)

    assert validated.returncode == 0, validated.stdout + validated.stderr
    assert "structure" in validated.stdout
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "passed" in tested.stdout


@pytest.mark.parametrize("module_id", [quick, *(each.values[0] for each in slow)])
def test_a_new_module_is_in_the_house_s_format_and_style(
    amplifier: Command, project: Path, module_id: str
) -> None:
    amplifier("module", "new", module_id)
    settings = str(Path(__file__).parents[4] / "pyproject.toml")

    # Where an import is sorted depends on what else is in the folder.
    for check in (["check", "--ignore=I001"], ["format", "--check", "--diff"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--no-cache", "--config", settings, module_id],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("module_id", [quick, *(each.values[0] for each in slow)])
def test_the_example_of_a_new_module_s_readme_runs(
    amplifier: Command, project: Path, module_id: str
) -> None:
    amplifier("module", "new", module_id)
    text = (project / module_id / "README.md").read_text("utf-8")
    example = text.partition("```python\n")[2].partition("```")[0]

    subprocess.run(
        [sys.executable, "-c", example],
        env={"PYTHONPATH": str(project / module_id / "src")},
        timeout=60,
        check=True,
    )


def test_a_folder_that_is_there_is_left_as_it_is(amplifier: Command, project: Path) -> None:
    (project / quick).mkdir()

    done = amplifier("module", "new", quick)

    assert done.returncode == 2
    assert list((project / quick).iterdir()) == []


@pytest.mark.parametrize("name", ["weather", "tool-", "tool-Weather", "tool-../x", "gadget-x"])
def test_a_name_that_is_none_is_refused_with_one_that_is(
    amplifier: Command, project: Path, name: str
) -> None:
    done = amplifier("module", "new", name)

    assert done.returncode == 2
    assert "next   amplifier module new tool-weather" in done.stderr
    assert list(project.iterdir()) == []


def test_a_broken_module_fails_with_what_is_wrong(amplifier: Command, project: Path) -> None:
    amplifier("module", "new", quick)
    package = project / quick / "src" / "amplifier_module_hooks_curfew"
    (package / "__init__.py").write_text("async def mount(): ...\n", encoding="utf-8")

    done = amplifier("module", "validate", f"./{quick}")

    assert done.returncode == 1
    assert "mount" in done.stdout
    assert "failed" in done.stdout


def test_the_installed_modules_are_listed_and_shown(amplifier: Command) -> None:
    listed = amplifier("module", "list").stdout
    shown = amplifier("module", "show", "provider-mock").stdout

    assert "provider-mock" in listed
    assert "## What it does" in shown


def test_a_module_of_several_in_one_distribution_has_a_summary_and_a_page_of_its_own(
    amplifier: Command,
) -> None:
    listed = amplifier("module", "list").stdout
    shown = amplifier("module", "show", "loop-events").stdout

    summaries = {
        line.split()[0]: line.split(maxsplit=2)[2]
        for line in listed.splitlines()
        if "loop-" in line
    }
    assert len(set(summaries.values())) == len(summaries) > 1
    assert "# loop-events" in shown
