"""A folder that somebody else filled: what of it acts when the command is started in it."""

from __future__ import annotations

import importlib.util
import json
import marshal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.sources import SourceResolver

# Each starts the command, some of them often.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]

# Where compiled files go is then up to Python, as it is for everybody.
AS_INSTALLED = {"PYTHONPYCACHEPREFIX": ""}
PACKAGE = "amplifier_module_tool_theirs"


def code(marker: Path, description: str = "Does it.") -> str:
    """Return a module that leaves a mark when it is imported, and mounts the tool `theirs`."""
    return f"""
from pathlib import Path

Path({str(marker)!r}).touch()
__amplifier_module_type__ = "tool"


class Theirs:
    name = "theirs"
    description = {description!r}
    input_schema = {{}}

    async def execute(self, input):
        return input


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Theirs(), name="theirs")
"""


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that is there once the code has run."""
    return tmp_path / "it-ran"


def own_tool(home: Path, source: str) -> None:
    """Have the user's own settings name the tool by its source."""
    home.mkdir(exist_ok=True)
    entry = {"module": "tool-theirs", "source": source}
    text = json.dumps({"modules": {"tools": [entry]}})
    (home / "settings.yaml").write_text(text, encoding="utf-8")


@pytest.mark.attack("U1")
@pytest.mark.attack("C1")
def test_the_lock_of_a_folder_that_is_not_trusted_approves_nothing(
    amplifier: Command, home: Path, project: Path, tmp_path: Path, marker: Path
) -> None:
    """The user names a source without pinning it; the folder brings the pin that lets it in."""
    archive = tmp_path / "theirs.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr(f"{PACKAGE}/__init__.py", code(marker))
    source = f"zip+file://{archive}"
    own_tool(home, source)
    attacker = SourceResolver(tmp_path / "attackers-home", base=project)
    attacker.pin("tool-theirs", source)
    attacker.lock.write()

    done = amplifier("tool", "list")

    assert not marker.exists()
    assert "\ntheirs" not in done.stdout
    assert "Ignoring amplifier.lock: this folder is not trusted." in done.stderr
    refused = amplifier("module", "lock")
    assert (refused.returncode, "next   amplifier trust" in refused.stderr) == (3, True)
    told = {each["what"]: each for each in json.loads(amplifier("doctor", "--json").stdout)}
    assert told["lock"]["fix"] == "amplifier trust"

    assert amplifier("trust", "grant", "--yes").returncode == 0
    assert "\ntheirs" in amplifier("tool", "list").stdout
    assert marker.exists()


def test_who_pins_has_decided_about_the_lock(amplifier: Command, project: Path) -> None:
    assert amplifier("module", "lock").returncode == 0
    assert "not trusted" not in amplifier("run", "hello").stderr

    (project / "AGENTS.md").write_text("Obey.", encoding="utf-8")

    assert "Ignoring amplifier.lock, AGENTS.md" in amplifier("run", "hello").stderr
    assert amplifier("module", "lock").returncode == 3


@pytest.mark.attack("C1")
@pytest.mark.attack("C4")
def test_a_bundle_that_is_named_by_its_path_is_asked_about_and_so_is_its_change(
    amplifier: Command, project: Path, marker: Path
) -> None:
    (project / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    amplifier("trust", "grant", "--yes")
    package = project / "theirs" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code(marker), encoding="utf-8")
    bundle = project / "theirs.md"
    tools = "tools: [{module: tool-theirs, source: ./theirs}]"
    bundle.write_text(f"---\nincludes: [default]\n{tools}\n---\nObey.", encoding="utf-8")
    arguments = ("tool", "list", "--bundle", "./theirs.md")

    refused = amplifier(*arguments)

    assert refused.returncode == 3
    assert "next   amplifier trust --file theirs.md" in refused.stderr
    assert not marker.exists()
    amplifier("trust", "grant", "--yes", "--file", "theirs.md")
    assert "\ntheirs" in amplifier(*arguments).stdout
    assert marker.exists()

    marker.unlink()
    (package / "__init__.py").write_text(code(marker, "Does more."), encoding="utf-8")
    assert amplifier(*arguments).returncode == 3
    assert not marker.exists()


@pytest.mark.attack("C1")
def test_a_bundle_of_a_trusted_folder_under_a_name_of_the_person_is_asked_about(
    amplifier: Command, project: Path
) -> None:
    (project / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    amplifier("trust", "grant", "--yes")
    (project / "mine.md").write_text("---\nincludes: [default]\n---\nObey.", encoding="utf-8")
    amplifier("bundle", "add", "mine", "mine.md")

    done = amplifier("run", "--bundle", "mine", "hello")

    assert done.returncode == 3
    assert "next   amplifier trust --file mine.md" in done.stderr


@pytest.mark.attack("C4")
def test_running_a_projects_module_leaves_nothing_in_the_project(
    amplifier: Command, project: Path, marker: Path
) -> None:
    """A compiled file would be a change of what is trusted, so the next start would ask again."""
    folder = project / ".amplifier" / "modules" / "theirs"
    (folder / PACKAGE).mkdir(parents=True)
    (folder / PACKAGE / "__init__.py").write_text(code(marker), encoding="utf-8")
    entry = "{module: tool-theirs, source: ./.amplifier/modules/theirs}"
    settings = project / ".amplifier" / "settings.yaml"
    settings.write_text(f"modules: {{tools: [{entry}]}}", encoding="utf-8")
    amplifier("trust", "grant", "--yes")

    for _ in range(2):
        assert "\ntheirs" in amplifier("tool", "list", env=AS_INSTALLED).stdout
    amplifier("module", "validate", str(folder), env=AS_INSTALLED)

    assert list(project.rglob("*.pyc")) == []
    assert ": trusted" in amplifier("trust", "show").stdout


@pytest.mark.attack("U1")
def test_a_compiled_file_does_not_run_in_place_of_the_source_that_is_pinned(
    amplifier: Command, home: Path, project: Path, tmp_path: Path, marker: Path
) -> None:
    """The content hash does not cover what Python leaves behind, so that must not act."""
    source = project / "theirs" / PACKAGE / "__init__.py"
    source.parent.mkdir(parents=True)
    source.write_text(code(tmp_path / "the-source-ran"), encoding="utf-8")
    own_tool(home, str(project / "theirs"))
    assert amplifier("module", "lock", env=AS_INSTALLED).returncode == 0
    evil = compile(code(marker), str(source), "exec")
    tag = sys.implementation.cache_tag
    compiled = source.parent / "__pycache__" / f"__init__.{tag}.pyc"
    compiled.parent.mkdir()
    # Flags 1: named by a hash that Python does not check.
    data = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    compiled.write_bytes(data + marshal.dumps(evil))

    assert "\ntheirs" in amplifier("tool", "list", env=AS_INSTALLED).stdout

    assert (tmp_path / "the-source-ran").exists()
    assert not marker.exists()


@pytest.mark.attack("C1")
def test_started_as_a_module_of_python_it_imports_nothing_from_the_folder(
    amplifier: Command, project: Path, marker: Path
) -> None:
    for name in ("click", "json", "asyncio", "yaml", "amplifier_core"):
        text = f"import pathlib; pathlib.Path({str(marker)!r}).touch()"
        (project / f"{name}.py").write_text(text, encoding="utf-8")

    assert amplifier("--version").returncode == 0
    assert amplifier("run", "hello").returncode == 0
    assert not marker.exists()


def test_who_cannot_be_asked_is_shown_the_command_with_its_options(
    amplifier: Command, project: Path
) -> None:
    settings = "providers: [{module: provider-x, config: {base_url: 'https://a.example'}}]"
    (project / ".amplifier").mkdir()
    (project / ".amplifier" / "settings.yaml").write_text(settings, encoding="utf-8")

    asked = amplifier("trust", "--origin", "https://a.example")
    unknown = amplifier("trust", "grant", "--yes", "--origin", "https://b.example")

    assert "next   amplifier trust grant --yes --origin https://a.example" in asked.stderr
    assert unknown.returncode == 2
    assert "Nothing in this folder sends requests to https://b.example." in unknown.stderr


def test_a_folder_that_has_bundles_fetched_can_be_granted_what_these_name(
    amplifier: Command, home: Path, project: Path
) -> None:
    (project / ".amplifier").mkdir()
    text = "bundle: {added: {far: 'git+https://far.example/x'}}"
    (project / ".amplifier" / "settings.yaml").write_text(text, encoding="utf-8")
    origins = ("--origin", "git+https://far.example", "--origin", "https://b.example")

    assert amplifier("trust", "grant", "--yes", *origins).returncode == 0
    assert amplifier("trust", "grant", "--yes").returncode == 0

    recorded = json.loads((home / "trust.json").read_text("utf-8"))
    (decision,) = recorded["projects"].values()
    assert decision["origins"] == ["git+https://far.example", "https://b.example"]
