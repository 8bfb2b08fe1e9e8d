"""Attacks by a project that was cloned, and out of a skill's folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Awaitable[Any]]
Add = Callable[..., Path]


@pytest.mark.attack("C1")
@pytest.mark.parametrize("trusted", [None, False, "true", 1])
async def test_skills_of_a_project_are_not_offered_before_it_is_trusted(
    start: Start, add: Add, person: Path, project: Path, trusted: Any
) -> None:
    add(person, "mine")
    add(project / ".amplifier/skills", "theirs")

    mounted = await start(trusted=trusted)

    assert mounted.names == ["mine"]
    assert not (await mounted.load("theirs")).success
    assert mounted.left_out == ["untrusted"]
    assert mounted.screen.lines == [
        f"tool-skills warning: Left out: {project}/.amplifier/skills: skills of a project are "
        "offered only when it is trusted."
    ]


@pytest.mark.parametrize(("trusted", "config"), [(True, {}), (None, {"trust_project": True})])
async def test_skills_of_a_trusted_project_are_offered(
    start: Start, add: Add, project: Path, trusted: Any, config: dict[str, Any]
) -> None:
    add(project / ".amplifier/skills", "theirs")

    assert (await start(trusted=trusted, **config)).names == ["theirs"]


@pytest.mark.attack("C1")
@pytest.mark.parametrize("spelling", ["{project}/skills", "sub/../skills", "{link}/skills"])
async def test_no_spelling_makes_a_folder_of_the_project_the_persons(
    start: Start, add: Add, project: Path, tmp_path: Path, spelling: str
) -> None:
    add(project / "skills", "theirs")
    (tmp_path / "link").symlink_to(project)
    path = spelling.format(project=project, link=tmp_path / "link")

    mounted = await start(paths=[path])

    assert mounted.names == []
    assert mounted.left_out == ["untrusted"]


@pytest.mark.attack("C4")
async def test_what_is_written_into_a_skill_in_the_session_does_not_become_instructions(
    start: Start, add: Add, person: Path
) -> None:
    folder = add(person, "mine", body="as it was")
    mounted = await start()

    (folder / "SKILL.md").write_text(
        "---\nname: mine\ndescription: x\n---\nforged", encoding="utf-8"
    )
    add(person, "new")

    assert "as it was" in (await mounted.load("mine")).output
    assert not (await mounted.load("new")).success


@pytest.mark.attack("F1")
async def test_a_link_leads_neither_a_skill_nor_its_files_out(
    start: Start, add: Add, person: Path, project: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    folder = add(person, "mine")
    (folder / "link").symlink_to(secret)
    (folder / "up").symlink_to("..")
    (person / "elsewhere").symlink_to(add(tmp_path / "other", "other"))
    (project / "linked").symlink_to(tmp_path / "other")
    (person / "inner").mkdir()
    (person / "inner/SKILL.md").symlink_to(tmp_path / "other/other/SKILL.md")

    mounted = await start(trusted=True, paths=["~/.amplifier/skills", "linked"])

    assert mounted.names == ["mine"]
    assert mounted.left_out == ["broken", "broken", "broken"]
    for path in ("link", "up/mine/SKILL.md", "up/elsewhere/SKILL.md"):
        result = await mounted.read("mine", path)
        assert result.error["rule"] == "outside"


@pytest.mark.attack("F2")
@pytest.mark.parametrize(
    "path",
    ["../other/SKILL.md", "/etc/passwd", "a/../../other/SKILL.md", "x\0", "", ".", "missing"]
    + ["x" * 5_000, "//etc/passwd"],
)
async def test_a_path_that_leads_out_is_refused_in_words(
    start: Start, add: Add, person: Path, path: str
) -> None:
    add(person, "mine")
    add(person, "other")

    result = await (await start()).read("mine", path)

    assert not result.success
    assert result.error["message"]


@pytest.mark.attack("F4")
async def test_huge_and_binary_files_are_refused(start: Start, add: Add, person: Path) -> None:
    folder = add(person, "mine")
    with (folder / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    (folder / "binary").write_bytes(b"\0")
    mounted = await start()

    assert (await mounted.read("mine", "sparse")).error["rule"] == "size"
    assert (await mounted.read("mine", "binary")).error["rule"] == "kind"


async def test_a_folder_that_cannot_be_looked_at_is_left_out(
    start: Start, add: Add, person: Path, project: Path
) -> None:
    """A name that is too long is refused to root, too, who may enter any folder."""
    add(person, "mine")

    mounted = await start(trusted=True, paths=[str(person), str(project / ("n" * 300))])

    assert mounted.names == ["mine"]
    assert mounted.left_out == ["broken"]
