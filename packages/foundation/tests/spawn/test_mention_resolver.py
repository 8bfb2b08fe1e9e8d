"""What a mention means to a module that asks for `mention_resolver`."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.spawn.mention_resolver import MentionResolver


@pytest.fixture(name="resolver")
def resolver_fixture(tmp_path: Path) -> MentionResolver:
    for name in ("kit/modes/plan.md", "kit/recipes/a.yaml", "work/NOTES.md", "secret.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    (tmp_path / "kit" / "link.md").symlink_to(tmp_path / "secret.md")
    return MentionResolver({"kit": tmp_path / "kit"}, tmp_path / "work")


@pytest.mark.parametrize(
    ("mention", "meant"),
    [
        ("@kit:recipes/a.yaml", "kit/recipes/a.yaml"),
        ("@kit:modes/plan", "kit/modes/plan.md"),
        ("@kit:modes", "kit/modes"),
        ("@NOTES.md", "work/NOTES.md"),
        ("@NOTES", "work/NOTES.md"),
    ],
)
def test_a_mention_means_a_file_of_a_bundle_or_of_the_project(
    mention: str, meant: str, resolver: MentionResolver, tmp_path: Path
) -> None:
    assert resolver.resolve(mention) == tmp_path / meant


@pytest.mark.parametrize(
    "mention",
    [
        "kit:recipes/a.yaml",
        "@nobody:recipes/a.yaml",
        "@kit:none.md",
        "@kit:../secret.md",
        "@kit:link.md",
        "@kit:/etc/passwd",
        "@../secret.md",
        "@/etc/passwd",
        "@~/.bashrc",
        "@kit:",
        "@",
        "@kit:a\0b",
    ],
)
def test_nothing_else_is_found(mention: str, resolver: MentionResolver) -> None:
    assert resolver.resolve(mention) is None


def test_modules_find_the_folders_of_the_bundles(resolver: MentionResolver, tmp_path: Path) -> None:
    assert {name: each.base_path for name, each in resolver.bundles.items()} == {
        "kit": tmp_path / "kit"
    }
