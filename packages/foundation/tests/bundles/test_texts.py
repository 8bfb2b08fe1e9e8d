"""Mentions and context: what is shown to the model, once each, and what is never shown."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.bundles import compile_bundle, load_bundle
from amplifier_foundation.bundles.mentions import mentions_in
from amplifier_foundation.errors import BundleError
from amplifier_foundation.settings import Settings, load_settings

Write = Callable[[str, str], Path]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See @b:context/x.md.", ["b:context/x.md"]),
        ("@a.md and @./b.md, (@c/d.md) and @a.md", ["a.md", "./b.md", "c/d.md"]),
        ("@~/.amplifier/AGENTS.md", ["~/.amplifier/AGENTS.md"]),
        ("mail me@example.org or git@host:x", []),
        ("`@a.md` and ``a ` @b.md`` but @c.md", ["c.md"]),
        ("```\n@a.md\n```\n@b.md\n~~~\n@c.md\n~~~", ["b.md"]),
        ("```\n@a.md never closed", []),
        ("npm i foo/@scope and x@1.2", []),
    ],
)
def test_mentions_are_found_in_prose_alone(text: str, found: list[str]) -> None:
    assert mentions_in(text) == found


async def test_each_file_is_shown_once_with_its_origin(settings: Settings, write: Write) -> None:
    write(
        "b/bundle.md",
        "---\nbundle: {name: b}\ncontext: {include: ['b:c/z.md', 'b:c/y.md']}\n---\nDo @b:c/x.md",
    )
    write("b/c/x.md", "X, then @b:c/y.md, @b:c/x.md")
    write("b/c/y.md", "Y")
    write("b/c/z.md", "Z")

    prepared = compile_bundle(
        await load_bundle(settings.project.parent / "b", settings=settings), settings, {}
    )

    assert [(part.origin, part.text) for part in prepared.instructions] == [
        ("bundle:b/bundle.md", "Do @b:c/x.md"),
        ("bundle:b/c/x.md", "# @b:c/x.md\n\nX, then @b:c/y.md, @b:c/x.md"),
        ("bundle:b/c/y.md", "# @b:c/y.md\n\nY"),
        ("bundle:b/c/z.md", "# @b:c/z.md\n\nZ"),
    ]
    assert prepared.notices == [
        "The bundle `b` leaves parts open; it gets `loop-streaming` as orchestrator,"
        " `context-summarizing` as context."
    ]


async def test_a_mention_of_nothing_is_a_notice_and_missing_context_a_warning(
    settings: Settings, write: Write
) -> None:
    path = write("b/a.md", "@alice: see @b:none.md, @./none.md, @x:y.md and @AGENTS.md")

    notices = compile_bundle(await load_bundle(path, settings=settings), settings, {}).notices

    assert [notice.split(" ")[0] for notice in notices[1:]] == [
        "@b:none.md",
        "@./none.md",
        "@x:y.md",
    ]
    write("b/a.md", "---\ncontext: {include: [none.md]}\n---")
    prepared = compile_bundle(await load_bundle(path, settings=settings), settings, {})
    (missing,) = prepared.missing
    assert (missing.kind, missing.reference) == ("context file", "none.md")
    assert str(missing) == prepared.notices[0]


async def test_a_mention_of_a_folder_shows_the_names_in_it(
    settings: Settings, write: Write
) -> None:
    path = write("b/bundle.md", "---\nbundle: {name: b}\n---\nSee @b:docs/ and @./docs/deep.")
    write("b/docs/two.md", "@b:none.md")
    write("b/docs/one.md", "")
    write("b/docs/deep/three.md", "")
    write("b/docs/__pycache__/x.pyc", "")

    prepared = compile_bundle(await load_bundle(path, settings=settings), settings, {})

    assert [part.text for part in prepared.instructions[1:]] == [
        "# @b:docs\n\nFolder with:\n\n- deep/\n- one.md\n- two.md",
        "# @./docs/deep\n\nFolder with:\n\n- three.md",
    ]
    assert prepared.missing == ()


async def test_a_folder_with_very_many_names_is_shown_in_part(
    settings: Settings, write: Write
) -> None:
    path = write("b/bundle.md", "---\nbundle: {name: b}\n---\n@b:docs and @b:none")
    for number in range(501):
        write(f"b/docs/{number:03}.md", "")
    (path.parent / "none").mkdir()

    prepared = compile_bundle(await load_bundle(path, settings=settings), settings, {})

    assert prepared.instructions[1].text.endswith("- 499.md\n- and 1 more")
    assert prepared.instructions[2].text.endswith("- nothing")


@pytest.mark.attack("C1")
async def test_a_folder_of_a_project_is_shown_with_what_was_decided_about_alone(
    settings: Settings, write: Write
) -> None:
    text = "---\nbundle: {name: b}\n---\n@b:docs"
    digest = hashlib.sha256(text.encode()).hexdigest()
    write("project/bundle.md", text)
    for name in ("docs/known.md", "docs/OBEY.md", "docs/in/known.md", "docs/OUT/OBEY.md"):
        write(f"project/{name}", "")
    acting = dict.fromkeys(("docs/known.md", "docs/in/known.md"), digest)
    trusted = load_settings(settings.project, trusted=True, acting={"bundle.md": digest, **acting})

    prepared = compile_bundle(await load_bundle("./bundle.md", settings=trusted), trusted, {})

    assert prepared.instructions[1].text == "# @b:docs\n\nFolder with:\n\n- in/\n- known.md"


async def test_no_reference_leads_out_of_its_bundle(settings: Settings, write: Write) -> None:
    secret = write("secret.md", "SECRET")
    (settings.project.parent / "b").mkdir()
    (settings.project.parent / "b" / "link.md").symlink_to(secret)
    (settings.project.parent / "b" / "out").symlink_to(settings.project.parent)
    path = write(
        "b/bundle.md",
        f"---\nbundle: {{name: b}}\n---\n"
        f"@../secret.md @b:../secret.md @b:link.md @{secret} @b:{secret}"
        " @b:out/secret.md @out/secret.md @~/secret.md",
    )

    prepared = compile_bundle(await load_bundle(path, settings=settings), settings, {})

    assert [part.text for part in prepared.instructions if "SECRET" in part.text] == []
    for reference in ("../secret.md", "b:link.md", "b:out/secret.md", str(secret)):
        write(
            "b/bundle.md", f"---\nbundle: {{name: b}}\ncontext: {{include: ['{reference}']}}\n---"
        )
        bundle = await load_bundle(path, settings=settings)
        with pytest.raises(BundleError, match="There is no file"):
            compile_bundle(bundle, settings, {})


@pytest.mark.attack("C1")
async def test_a_projects_instructions_are_shown_once_it_is_trusted_and_not_before(
    settings: Settings, write: Write
) -> None:
    write("project/AGENTS.md", "PROJECT")
    write("home/AGENTS.md", "PERSON")
    path = write("b/bundle.md", "Mind @AGENTS.md and @~/.amplifier/AGENTS.md")

    before = compile_bundle(await load_bundle(path, settings=settings), settings, {})
    trusted = load_settings(settings.project, trusted=True)
    after = compile_bundle(await load_bundle(path, settings=trusted), trusted, {})

    def shown(parts: list[str]) -> list[str]:
        return [part.partition("\n\n")[2] for part in parts]

    assert shown([part.text for part in before.instructions]) == ["", "PERSON"]
    assert any("is not trusted" in notice for notice in before.notices)
    assert shown([part.text for part in after.instructions]) == ["", "PROJECT", "PERSON"]
