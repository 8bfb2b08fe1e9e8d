"""What a `source:` in a file means, and what a project's file may not say there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.config.written_sources import (
    SourceOrigin,
    origin_of,
    path_sources,
    with_absolute_sources,
)
from amplifier_foundation.errors import TrustError
from amplifier_foundation.settings import load_settings
from amplifier_foundation.trust import Trust

Write = Callable[[str, str], Path]


@pytest.fixture
def origin(home: Path, project: Path) -> SourceOrigin:
    """The settings of a project with a few folders in it."""
    for name in ("mods", "mods#1", "@mods/a", "a b", ".git/x"):
        (project / name).mkdir(parents=True)
    (project / "link").symlink_to("mods")
    (project / "out").symlink_to(home)
    (project / "loop").symlink_to("loop")
    return SourceOrigin(project / ".amplifier/settings.yaml", (project,), home, project)


def read(source: Any, origin: SourceOrigin) -> Any:
    return with_absolute_sources({"module": "m", "source": source}, origin)["source"]


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("./mods", "mods"),
        ("mods/", "mods"),
        (" ./mods\n", "mods"),
        ("./mods#1", "mods#1"),
        ("@mods/a", "@mods/a"),
        ("./link", "mods"),
        ("./out/../project/mods", "mods"),
        ("./" * 3_000 + "mods", "mods"),
        ("../project/mods", "mods"),
        ("{project}/mods", "mods"),
        ("file://{project}/a%20b", "a b"),
        ("file://{project}#subdirectory=mods", "mods"),
        ({"type": "path", "path": "mods"}, "mods"),
        ("./not-there", "not-there"),
    ],
)
def test_a_path_becomes_the_real_one(
    source: Any, folder: str, origin: SourceOrigin, project: Path
) -> None:
    if isinstance(source, str):
        source = source.replace("{project}", str(project))

    assert read(source, origin) == str(project / folder)


@pytest.mark.parametrize(
    "source",
    ["git+https://host/o/r@main", "package:name", "name", {"type": "package", "name": "name"}],
)
def test_what_is_no_path_stays_as_it_is_written(source: Any, origin: SourceOrigin) -> None:
    assert read(source, origin) == source


REFUSED = {
    "variable": "${PWD}/mods",
    "default": "${NOT_SET:./mods}",
    "variable in a mapping": {"type": "path", "path": "${PWD}/mods"},
    "variable in an address": "git+https://${HOST}/o/r",
    "process": "/proc/self/cwd/mods",
    "escaped process": "file:///proc/self/cwd/%6dods",
    "outside": "/usr/lib",
    "above": "../elsewhere",
    "home": "~/elsewhere",
    "link out": "./out",
    "loop": "./loop/x",
    "git": "./.git",
    "below git": "./.git/x",
    "nobody's home": "~no-such-user/x",
    "too long a name": "./" + "x" * 300,
    "number": 7,
    "list": ["./mods"],
    "empty": "",
    "no type": {"path": "./mods"},
    "odd type": {"type": 7, "path": "./mods"},
    "unknown scheme": "ftp://host/x",
}


@pytest.mark.attack("review H3")
@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_shown_is_refused_by_trust_and_by_the_loader(
    source: Any, origin: SourceOrigin, home: Path, project: Path, write: Write
) -> None:
    entry = {"module": "m", "source": source}
    write("project/.amplifier/settings.yaml", json.dumps({"modules": {"tools": [entry]}}))

    status = Trust(home).status(project)

    assert status.unverifiable == [".amplifier/settings.yaml"]
    assert "is not used" in status.reasons[".amplifier/settings.yaml"]
    with pytest.raises(TrustError, match="cannot be trusted"):
        Trust(home).record(project, status.digest)
    with pytest.raises(TrustError, match="is not used") as refused:
        load_settings(project, trusted=True)
    assert "\n" not in refused.value.message.replace(str(source), "")


@pytest.mark.parametrize(
    "values",
    [
        {"tools": [{"module": "m", "source": "./mods"}]},
        {"session": {"orchestrator": "m", "orchestrator_source": "./mods"}},
        {"session": {"context_source": {"type": "local", "path": "./mods"}}},
        {"sources": {"modules": {"m": "./mods"}}},
        {"agents": {"a": {"hooks": [{"module": "m", "source": "mods/"}]}}},
    ],
)
def test_sources_are_found_wherever_they_may_be_written(
    values: dict[str, Any], origin: SourceOrigin, project: Path
) -> None:
    assert list(path_sources(with_absolute_sources(values, origin))) == [project / "mods"]


def test_sources_of_the_user_keep_variables_and_start_at_their_file(
    home: Path, project: Path, write: Write
) -> None:
    sources = {"a": "${WHERE}/a", "b": "./b", "c": "c/d", "d": "/e"}
    write("home/settings.yaml", json.dumps({"sources": {"modules": sources}}))

    found = load_settings(project, trusted=False).get("sources.modules")

    assert found == {"a": "${WHERE}/a", "b": f"{home}/b", "c": f"{home}/c/d", "d": "/e"}


def test_an_agents_sources_start_in_its_folder_else_at_the_root_of_its_bundle(
    home: Path, project: Path, write: Write
) -> None:
    agent = write("project/b/agents/helper.md", "")

    folders = origin_of(agent, home, project).folders

    assert folders == (agent.parent, project / "b", project)


def test_a_project_that_names_too_much_is_not_trusted_and_read_within_limits(
    home: Path, project: Path, write: Write
) -> None:
    words = " ".join(f"../x{number}" for number in range(20_001))
    write("project/.amplifier/a/words.yaml", f"a: {words}")
    deep = project / ".amplifier" / "/".join("d" * 150)
    deep.mkdir(parents=True)
    (deep / "hidden").touch()

    status = Trust(home).status(project)

    assert status.reasons == {".amplifier/a/words.yaml": "It names too many files."}
    too_deep = [name for name in status.unverifiable if name.endswith("/d/d")]
    assert len(too_deep) == 1
    assert sum("hidden" in name for name in status.files) == 0
