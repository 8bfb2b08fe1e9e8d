"""Projects that have other code loaded than the code which the user was shown and trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from attacks.machine import Machine, write

PACKAGE = "amplifier_module_tool_theirs"
CODE = """
from pathlib import Path

Path({marker!r}).touch()
__amplifier_module_type__ = "tool"


class Theirs:
    name = "theirs"
    description = "Does it."
    input_schema = {{}}

    async def execute(self, input):
        return input


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Theirs(), name="theirs")
"""
NO_CODE = "async def mount(coordinator, config=None): ...\n"


class Form(NamedTuple):
    """A way to write a source: where its code really is, and what it looks like it would be."""

    source: Any
    folder: str = "mods"
    decoy: str = ""


FORMS = {
    "plain": Form("./mods"),
    "hash": Form("./mods#1", "mods#1", "mods"),
    "at": Form("@mods/a", "@mods/a", "mods/a"),
    "variable": Form("${PWD}/mods"),
    "default": Form("${NOT_SET_HERE:./mods}"),
    "escaped": Form("file:///proc/self/cwd/%6dods"),
    "cwd": Form("/proc/self/cwd/mods"),
    "long": Form("./" + "./" * 600 + "mods"),
    "up": Form("../project/mods"),
    "home": Form("~/project/mods"),
    "mapping": Form({"type": "path", "path": "./mods"}),
    "address": Form("file://{project}/a%20b", "a b", "a%20b"),
    "subdirectory": Form("file://{project}/x#subdirectory=mods", "x/mods", "mods"),
    "question mark": Form("file://{project}/mods?decoy", "mods", "mods?decoy"),
    "blanks": Form(" ./mods ", "mods", "mods "),
    "git": Form("./.git", ".git"),
    "below git": Form("./.git/hooks/mods", ".git/hooks/mods"),
    "link": Form("./link/mods", "real/mods", "mods"),
    "accent": Form("./mo\u0301ds", "mo\u0301ds", "m\u00f3ds"),
}
QUICK = ("hash", "variable", "long")


def forms() -> list[Any]:
    """Return the forms as parameters; most of them are for the slow tests."""
    slow = [pytest.mark.slow]
    return [
        pytest.param(form, id=name, marks=[] if name in QUICK else slow)
        for name, form in FORMS.items()
    ]


def write_module(machine: Machine, folder: str, code: str) -> Path:
    """Write the module `tool-theirs` into a folder of the project."""
    return machine.write(f"{folder}/{PACKAGE}/__init__.py", code)


def name_source(machine: Machine, source: Any) -> None:
    """Have the project's settings name the module by a source."""
    if isinstance(source, str):
        source = source.replace("{project}", str(machine.project))
    entry = {"module": "tool-theirs", "source": source}
    machine.project_settings({"modules": {"tools": [entry]}})


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that is there once the code has run."""
    return tmp_path / "it-ran"


@pytest.mark.attack("review H3")
@pytest.mark.parametrize("form", forms())
def test_what_is_loaded_is_what_was_shown_however_the_source_is_written(
    form: Form, machine: Machine, marker: Path
) -> None:
    machine.environment["PWD"] = str(machine.project)
    code = write_module(machine, form.folder, CODE.format(marker=str(marker)))
    if form.decoy:
        write_module(machine, form.decoy, NO_CODE)
    if form.folder.startswith("real/"):
        (machine.project / "link").symlink_to("real")
    name_source(machine, form.source)
    machine.trust()

    shown = machine.amplifier("trust", "show").stdout.splitlines()
    machine.amplifier("tool", "list")

    names = {line.strip() for line in shown}
    assert (f"{form.folder}/{PACKAGE}/__init__.py" in names) == marker.exists()
    assert f"{form.decoy}/{PACKAGE}/__init__.py" not in names

    marker.unlink(missing_ok=True)
    code.write_text(CODE.format(marker=str(marker)) + "CHANGED = True\n", encoding="utf-8")
    machine.amplifier("tool", "list")
    assert not marker.exists()


@pytest.mark.attack("review H3")
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"sources": {"modules": {"tool-todo": "./mods#1"}}}, id="other source"),
        pytest.param(
            {"session": {"orchestrator": "loop-streaming", "orchestrator_source": "./mods#1"}},
            id="loop",
        ),
        pytest.param(
            {"session": {"context": {"module": "context-simple", "source": "@mods/../mods#1"}}},
            id="memory",
        ),
        pytest.param({"bundle": "./b.conf"}, id="bundle of any ending"),
    ],
)
def test_code_that_is_named_elsewhere_in_settings_runs_only_when_it_was_shown(
    settings: dict[str, Any], machine: Machine, marker: Path
) -> None:
    write_module(machine, "mods#1", CODE.format(marker=str(marker)))
    write_module(machine, "@mods", NO_CODE)
    tool = {"module": "tool-theirs", "source": "./mods#1"}
    machine.write("b.conf", {"includes": ["default"], "tools": [tool]})
    machine.project_settings(settings)
    machine.trust()

    shown = machine.amplifier("trust", "show").stdout
    machine.amplifier("run", "hello")

    assert (f"mods#1/{PACKAGE}/__init__.py" in shown) == marker.exists()


@pytest.mark.attack("review H3")
def test_a_source_that_cannot_be_shown_is_refused_with_its_reason(machine: Machine) -> None:
    write_module(machine, "mods", NO_CODE)
    name_source(machine, "${PWD}/mods")

    refused = machine.trust()

    assert refused.returncode == 3
    assert "`${PWD}/mods`" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert machine.amplifier("tool", "list").returncode == 0


@pytest.mark.attack("review H3")
@pytest.mark.slow
def test_a_file_beside_a_trusted_module_is_not_imported(machine: Machine, marker: Path) -> None:
    """A folder that is a package itself had everything beside it on the import path."""
    imports = "try:\n    import beside_theirs\nexcept ImportError:\n    pass\n"
    machine.write("mods/tool_theirs/__init__.py", imports + CODE.format(marker=str(marker)))
    name_source(machine, "./mods/tool_theirs")
    beside = machine.project.parent / "it-ran-too"
    machine.write("mods/beside_theirs.py", f"import pathlib; pathlib.Path({str(beside)!r}).touch()")
    machine.trust()

    machine.amplifier("tool", "list")

    assert marker.exists()
    assert not beside.exists()


USERS = {
    "another source": {
        "modules": {"tools": [{"module": "tool-theirs"}]},
        "sources": {"modules": {"tool-theirs": "./mods"}},
    },
    "a source without a dot": {
        "modules": {"tools": [{"module": "tool-theirs", "source": "mods/"}]}
    },
    "a variable": {"modules": {"tools": [{"module": "tool-theirs", "source": "${PWD}/mods"}]}},
}


@pytest.mark.attack("review H3")
@pytest.mark.slow
@pytest.mark.parametrize("settings", USERS.values(), ids=USERS.keys())
def test_the_users_own_settings_do_not_lead_into_a_folder_that_is_not_trusted(
    settings: dict[str, Any], machine: Machine, marker: Path
) -> None:
    machine.environment["PWD"] = str(machine.project)
    write_module(machine, "mods", CODE.format(marker=str(marker)))
    machine.user_settings(settings)

    machine.amplifier("tool", "list")

    assert not marker.exists()


@pytest.mark.attack("review H3")
@pytest.mark.slow
@pytest.mark.parametrize("variable", ["PYTHONPATH", "AMPLIFIER_MODULES"])
def test_a_module_that_is_merely_on_the_search_path_is_not_loaded_from_the_project(
    variable: str, machine: Machine, marker: Path
) -> None:
    machine.environment[variable] = "modules"
    write_module(machine, "modules", CODE.format(marker=str(marker)))
    write_module(machine, "modules/tool-theirs", CODE.format(marker=str(marker)))
    machine.user_settings({"modules": {"tools": [{"module": "tool-theirs"}]}})

    refused = machine.amplifier("tool", "list")

    assert not marker.exists()
    assert "next   amplifier trust --file modules" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.attack("review H3")
def test_a_bundle_from_elsewhere_does_not_load_code_of_a_folder_that_is_not_trusted(
    machine: Machine, marker: Path
) -> None:
    write_module(machine, "mods", CODE.format(marker=str(marker)))
    tool = {"module": "tool-theirs", "source": str(machine.project / "mods")}
    bundle = {"includes": ["default"], "tools": [tool]}
    elsewhere = write(machine.user_home / "elsewhere" / "bundle.yaml", bundle)

    refused = machine.amplifier("tool", "list", "--bundle", str(elsewhere))

    assert not marker.exists()
    assert "amplifier trust --file mods" in refused.stderr
    assert "Traceback" not in refused.stderr
    machine.trust("--file", "mods")
    machine.amplifier("tool", "list", "--bundle", str(elsewhere))
    assert marker.exists()


def server(*command: str) -> dict[str, Any]:
    """Return settings with one MCP server, as a project would have it to run on the host."""
    entry = {"command": command[0], "args": list(command[1:]), "sandbox": "off", "trust": True}
    tool = {"module": "tool-mcp", "config": {"servers": {"x": entry}, "connect_seconds": 5}}
    return {"modules": {"tools": [tool]}}


COMMANDS = {
    "module": ("python3", "-m", "theirs"),
    "options in one word": ("python3", "-sm", "theirs"),
    "code": ("python3", "-c", "import theirs.__main__"),
    "shell": ("sh", "-c", "exec python3 -m theirs"),
    "env": ("env", "A=1", "python3", "-m", "theirs"),
    "variable": ("${PWD}/theirs/run.sh",),
    "script by variable": ("sh", "${PWD}/theirs/run.sh"),
}


def write_server(machine: Machine, marker: Path) -> None:
    """Write what the commands would run."""
    machine.environment["PWD"] = str(machine.project)
    machine.write("theirs/__main__.py", f"import pathlib; pathlib.Path({str(marker)!r}).touch()")
    script = machine.write("theirs/run.sh", f"#!/bin/sh\ntouch {marker}\n")
    script.chmod(0o755)


@pytest.mark.attack("review H3")
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_projects_server_runs_no_code_of_it_that_was_not_shown(
    command: tuple[str, ...], machine: Machine, marker: Path
) -> None:
    write_server(machine, marker)
    machine.project_settings(server(*command))
    machine.trust()

    shown = machine.amplifier("trust", "show").stdout
    machine.amplifier("tool", "list")

    assert "theirs/" in shown or not marker.exists()


@pytest.mark.attack("review H3")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["module", "variable"])
def test_a_server_of_the_user_runs_no_code_of_a_folder_that_is_not_trusted(
    name: str, machine: Machine, marker: Path
) -> None:
    write_server(machine, marker)
    machine.user_settings(server(*COMMANDS[name]))

    machine.amplifier("tool", "list")

    assert not marker.exists()
