"""A bundle that cannot be had: left out when nothing was pinned for it, refused otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.sources import (
    FetchError,
    MissingSourceError,
    SourceResolver,
    UnpinnedError,
)

Resolvers = Callable[..., SourceResolver]
Commit = Callable[[dict[str, str]], str]


def test_a_bundle_that_cannot_be_had_is_recorded_as_missing_until_it_is_locked_again(
    repository: Path, commit: Commit, resolver_with: Resolvers, project: Path
) -> None:
    uri = f"git+file://{repository}@main#subdirectory=dev.md"
    with pytest.raises(UnpinnedError):
        resolver_with().fetch(uri)
    locking = resolver_with(pinning=True)
    with pytest.raises(MissingSourceError):
        locking.fetch(uri)
    locking.lock.write()

    commit({"dev.md": "first"})
    with pytest.raises(MissingSourceError, match="when it was locked"):
        resolver_with().fetch(uri)

    again = resolver_with(pinning=True)
    again.fetch(uri)
    again.lock.write()
    assert resolver_with().fetch(uri).read_text(encoding="utf-8") == "first"
    assert "missing" not in (project / "amplifier.lock").read_text(encoding="utf-8")


@pytest.mark.attack("U1")
@pytest.mark.parametrize("pinning", [False, True])
def test_a_pinned_bundle_that_can_no_longer_be_had_is_not_merely_missing(
    repository: Path, commit: Commit, resolver_with: Resolvers, home: Path, pinning: bool
) -> None:
    commit({"dev.md": "first"})
    uri = f"git+file://{repository}@main#subdirectory=dev.md"
    locking = resolver_with(pinning=True)
    tree = locking.fetch(uri).parent
    locking.lock.write()
    # The tree itself is read-only, and only root can move it to another folder.
    tree.parent.rename(home / "elsewhere")
    repository.rename(repository.with_name("gone"))

    with pytest.raises(FetchError) as error:
        resolver_with(pinning=pinning).fetch(uri)

    assert not error.value.is_missing


def test_a_folder_that_a_fetched_bundle_does_not_have_is_missing(
    repository: Path, commit: Commit, resolver_with: Resolvers
) -> None:
    commit({"dev.md": "first"})

    with pytest.raises(MissingSourceError, match="has no `other.md` in commit"):
        resolver_with(pinning=True).fetch(f"git+file://{repository}@main#path=other.md")
