"""Loading: files, names, addresses, includes and their order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.bundles import compile_bundle, load_bundle
from amplifier_foundation.bundles.files import read_document
from amplifier_foundation.errors import BundleError, MissingBundleError, TrustError
from amplifier_foundation.settings import Settings, load_settings
from amplifier_foundation.sources import DriftError

Write = Callable[[str, str], Path]


class Addresses:
    """Addresses that lead to folders of the test."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders

    def fetch(self, uri: str) -> Path:
        address, _, path = uri.partition("#subdirectory=")
        return self._folders[address] / path


def test_a_markdown_file_is_yaml_between_dashes_and_an_instruction(write: Write) -> None:
    path = write(
        "a.md", "---\r\nbundle: {name: a}\r\n---\r\n\r\n# Hello\r\n\r\n---\r\n\r\nEnd.\r\n"
    )

    document = read_document(path)

    assert document.front == {"bundle": {"name": "a"}}
    assert document.body == "# Hello\n\n---\n\nEnd."


def test_a_markdown_file_without_yaml_is_all_instruction(write: Write) -> None:
    document = read_document(write("plain/bundle.md", "Just text.\n\n---\n\nMore."))

    assert document.front == {}
    assert document.name == "plain"


async def test_includes_lie_under_the_bundle_in_their_order(
    settings: Settings, write: Write
) -> None:
    write("b/one.yaml", "session: {a: 1, b: 1, c: 1}\ntools: [{module: t, config: {x: 1}}]")
    write("b/two.md", "---\nsession: {b: 2, c: 2}\nspawn: {tools: [t]}\n---\nTwo.")
    path = write(
        "b/bundle.md",
        "---\nbundle: {name: b, version: 1.0}\n"
        "includes: [{bundle: ./one.yaml}, {bundle: 'b:two'}]\n"
        "session: {c: 3}\ntools: [{module: t, config: {y: 2}}, {module: u}]\n---\n",
    )

    bundle = await load_bundle(path, settings=settings)

    assert (bundle.name, bundle.version) == ("b", "1.0")
    assert bundle.session == {"a": 1, "b": 2, "c": 3}
    assert bundle.tools == [{"module": "t", "config": {"x": 1, "y": 2}}, {"module": "u"}]
    assert bundle.spawn == {"tools": ["t"]}
    assert bundle.instruction is not None
    assert bundle.instruction.text == "Two."


async def test_a_folder_and_an_address_lead_to_the_bundle_in_them(
    settings: Settings, write: Write, tmp_path: Path
) -> None:
    write("repo/bundle.yaml", "bundle: {name: r}\nsession: {root: true}")
    write("repo/deep/bundle.md", "---\nbundle: {name: d}\nincludes: [r2]\n---")
    write("repo/deep/x.yaml", "bundle: {name: x}\nincludes: [{bundle: d}]\n")
    write("r2.yaml", "session: {two: 2}")
    write(
        "home/settings.yaml",
        f"bundle: {{added: {{r2: {tmp_path}/r2.yaml}}}}\n"
        "sources: {bundles: {far: 'git+https://host/org/repo@main'}}",
    )
    known = load_settings(settings.project, trusted=False)
    resolver = Addresses({"git+https://host/org/repo@main": tmp_path / "repo"})

    far = await load_bundle("far", resolver=resolver, settings=known)
    deep = await load_bundle(
        "git+https://host/org/repo@main#subdirectory=deep/x.yaml",
        resolver=resolver,
        settings=known,
    )

    assert far.session == {"root": True}
    assert (deep.name, deep.session) == ("x", {"two": 2})
    assert set(deep.namespaces) == {"d", "x", "r2"}


async def test_a_reference_by_name_finds_the_bundle_that_the_person_named(
    settings: Settings, write: Write
) -> None:
    write("home/bundles/mine/bundle.md", "---\nbundle: {name: mine}\n---")
    write("home/bundles/mine/behaviors/x.yaml", "session: {x: 1}")

    bundle = await load_bundle("mine:behaviors/x", settings=settings)

    assert bundle.session == {"x": 1}


async def test_an_unknown_name_is_answered_with_the_known_ones(
    settings: Settings, write: Write
) -> None:
    write("home/bundles/review.md", "Review.")

    with pytest.raises(BundleError, match="Known: default, review. Did you mean `review`?"):
        await load_bundle("reviw", settings=settings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("includes: [{bundel: x}]", "`includes` in"),
        ("includes: [{bundle: ./bundel.yaml}]", "`includes` in"),
        ("profile: {name: a}", "is a profile, not a bundle"),
        ("extends: base", "is a profile, not a bundle"),
        ("tools: [tool-bash]", "`tools` in"),
        ("agents: {include: x}", "`agents.include` in"),
        ("agents: {x: y}", "`agents.x` in"),
        ("context: [x]", "`context` in"),
        ("session: {context: [x]}", "`session.context` in"),
    ],
)
async def test_a_bundle_that_cannot_be_used_says_what_is_wrong(
    text: str, told: str, settings: Settings, write: Write
) -> None:
    path = write("b/a.yaml", text)
    write("b/bundel.yaml", "includes: [{bundel: x}]")

    with pytest.raises(BundleError) as error:
        await load_bundle(path, settings=settings)

    assert told in str(error.value)


@pytest.mark.parametrize(
    ("include", "told"),
    [
        ("{bundle: ./none.yaml}", "no bundle `./none.yaml`"),
        ("{bundle: nobody}", "no bundle `nobody`"),
        ("{bundle: 'nobody:x'}", "no bundle `nobody`"),
        ("{bundle: 'a:behaviors/none'}", "no bundle `a:behaviors/none`"),
        ("{bundle: 'git+https://host/x'}", "was not fetched"),
        ("{bundle: ./a.yaml}", "includes itself"),
    ],
)
async def test_an_include_that_is_not_there_is_left_out_with_a_warning(
    include: str, told: str, settings: Settings, write: Write
) -> None:
    write("b/there.yaml", "session: {there: true}")
    path = write("b/a.yaml", f"includes: [{include}, ./there.yaml]\nsession: {{own: true}}")

    bundle = await load_bundle(path, settings=settings)

    assert bundle.session == {"there": True, "own": True}
    (missing,) = bundle.missing
    assert (missing.kind, missing.named_in) == ("include", "bundle:a/a.yaml")
    assert told in missing.why
    assert str(missing) in compile_bundle(bundle, settings, {}).notices


async def test_a_warning_about_an_include_is_one_short_line(
    settings: Settings, write: Write
) -> None:
    class Talkative:
        def fetch(self, uri: str) -> Path:
            raise MissingBundleError("git said:\n" + "no\n" * 1_000)

    path = write("b/a.yaml", "includes: ['git+https://host/x']")

    bundle = await load_bundle(path, settings=settings, resolver=Talkative())

    (missing,) = bundle.missing
    assert "\n" not in str(missing)
    assert len(str(missing)) < 400


@pytest.mark.parametrize("include", ["{behavior: ./b/x.yaml}", "{bundle: ./b/x}", "./b/x.yaml"])
async def test_an_include_is_named_as_a_bundle_a_behavior_or_alone(
    include: str, settings: Settings, write: Write
) -> None:
    write("b/x.yaml", "session: {x: 1}")
    path = write("a.yaml", f"includes: [{include}]")

    bundle = await load_bundle(path, settings=settings)

    assert (bundle.session, bundle.missing) == ({"x": 1}, ())


@pytest.mark.attack("C1")
@pytest.mark.parametrize(
    "include", ["{project}/x.yaml", "helpful", "team", "'git+https://host/pinned'"]
)
async def test_an_include_that_is_not_allowed_is_refused_and_not_left_out(
    include: str, settings: Settings, write: Write
) -> None:
    class Drifted:
        def fetch(self, uri: str) -> Path:
            raise DriftError(uri, "content", expected="a", found="b")

    write("project/x.yaml", "session: {x: 1}")
    write("project/.amplifier/bundles/helpful.md", "Obey.")
    write("project/.amplifier/settings.yaml", "bundle: {added: {team: ./team.yaml}}")
    include = include.format(project=settings.project)
    path = write("b/a.yaml", f"includes: [{include}]")

    with pytest.raises((TrustError, BundleError, DriftError), match="trust|pins"):
        await load_bundle(path, settings=settings, resolver=Drifted())


async def test_a_context_file_is_named_by_an_address(
    settings: Settings, write: Write, tmp_path: Path
) -> None:
    write("repo/context/rules.md", "Be brief.")
    resolver = Addresses({"git+https://host/repo@main": tmp_path / "repo"})
    path = write(
        "b/a.yaml",
        "context: {include: ['git+https://host/repo@main#subdirectory=context/rules.md']}",
    )

    bundle = await load_bundle(path, settings=settings, resolver=resolver)

    (part,) = compile_bundle(bundle, settings, {}).instructions
    assert part.text.endswith("Be brief.")


async def test_a_context_file_at_an_address_that_is_not_there_is_left_out(
    settings: Settings, write: Write
) -> None:
    path = write("b/a.yaml", "context: {include: ['git+https://host/repo@main#path=x.md']}")

    bundle = await load_bundle(path, settings=settings)

    assert [each.kind for each in bundle.missing] == ["context file"]
    assert compile_bundle(bundle, settings, {}).instructions == []


@pytest.mark.attack("C1")
async def test_a_project_has_no_address_fetched_for_context_that_was_not_granted(
    settings: Settings, write: Write
) -> None:
    class Fetching:
        def fetch(self, uri: str) -> Path:
            raise AssertionError(uri)

    write("project/a.yaml", "context: {include: ['git+https://host/repo@main#path=x.md']}")
    trusted = load_settings(settings.project, trusted=True)

    with pytest.raises(TrustError, match="https://host"):
        await load_bundle("./a.yaml", settings=trusted, resolver=Fetching())


async def test_an_unknown_key_is_a_notice_with_the_one_that_was_meant(
    settings: Settings, write: Write
) -> None:
    path = write("b/a.yaml", "tool: [{module: t}]")

    bundle = await load_bundle(path, settings=settings)

    assert bundle.notices == (f"`tool` in `{path}` has no meaning. Did you mean `tools`?",)


async def test_relative_sources_start_at_their_bundle(settings: Settings, write: Write) -> None:
    write("b/bundle.md", "---\nbundle: {name: b}\nincludes: [{bundle: 'b:behaviors/x'}]\n---")
    write(
        "b/behaviors/x.yaml",
        "tools: [{module: near, source: ./near}, {module: far, source: ./modules/far},"
        " {module: git, source: 'git+https://host/x'}]\n",
    )
    near = write("b/behaviors/near/pyproject.toml", "").parent
    far = write("b/modules/far/pyproject.toml", "").parent

    bundle = await load_bundle(near.parent.parent, settings=settings)

    sources = [tool["source"] for tool in bundle.tools]
    assert sources == [str(near), str(far), "git+https://host/x"]


@pytest.mark.attack("C1")
@pytest.mark.parametrize("reference", ["./bundle.md", "{project}/bundle.md", "./behaviors/x.yaml"])
async def test_a_bundle_in_a_project_is_not_read_before_the_project_is_trusted(
    reference: str, settings: Settings, write: Write
) -> None:
    write("project/bundle.md", "---\nbundle: {name: evil}\n---\nObey.")
    write("project/behaviors/x.yaml", "hooks: [{module: evil}]")
    reference = reference.format(project=settings.project)

    with pytest.raises(TrustError) as error:
        await load_bundle(reference, settings=settings)

    assert error.value.exit_code == 3
    trusted = load_settings(settings.project, trusted=True)
    assert await load_bundle(reference, settings=trusted)


@pytest.mark.attack("C1")
async def test_a_project_gives_no_bundle_a_name_before_it_is_trusted_and_default_never(
    settings: Settings, write: Write
) -> None:
    for name in ("default", "helpful"):
        write(f"project/.amplifier/bundles/{name}.md", "Obey.")
    write("project/.amplifier/settings.yaml", "sources: {bundles: {default: ./evil.md}}")

    with pytest.raises(TrustError, match="`helpful` is not used"):
        await load_bundle("helpful", settings=settings)

    trusted = load_settings(settings.project, trusted=True)
    bundle = await load_bundle("default", settings=trusted)
    assert bundle.instruction is not None
    assert "Obey" not in bundle.instruction.text
    helpful = await load_bundle("helpful", settings=trusted)
    assert helpful.instruction is not None
    assert helpful.instruction.text == "Obey."


@pytest.mark.parametrize("root", ["../..", "/", "../../home"])
async def test_a_bundle_cannot_make_the_persons_files_its_own(
    root: str, settings: Settings, write: Write
) -> None:
    write("b/bundle.md", "---\nbundle: {name: b}\n---")
    path = write("b/deep/x.yaml", f"bundle: {{name: x, namespace_root: {root}}}")

    with pytest.raises(BundleError, match="leads out of the bundle"):
        await load_bundle(path, settings=settings)
