"""Links and pictures of the documents lead to something, and every picture is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.documents import ROOT, documents

_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def links_of(document: str) -> list[Path]:
    """Return what a document links to in this repository."""
    text = (ROOT / document).read_text(encoding="utf-8")
    folder = (ROOT / document).parent
    return [(folder / link).resolve() for link in _LINK.findall(text)]


@pytest.mark.parametrize("document", documents())
def test_every_link_of_a_document_leads_to_something(document: str) -> None:
    assert [str(path) for path in links_of(document) if not path.exists()] == []


def test_the_pages_of_distributions_link_to_nothing_in_the_repository() -> None:
    # A package index shows them too, without the rest of the repository.
    projects = [path.parent for path in ROOT.glob("*/*/pyproject.toml")]
    pages = [str((each / "README.md").relative_to(ROOT)) for each in projects]

    assert len(pages) > 20
    assert {page: links_of(page) for page in pages if links_of(page)} == {}


def test_every_picture_is_shown_and_names_no_machine() -> None:
    shown = {path for document in documents() for path in links_of(document)}
    pictures = set((ROOT / "docs" / "pictures").resolve().iterdir())

    assert pictures <= shown
    assert [each.name for each in pictures if "/tmp/" in each.read_text(encoding="utf-8")] == []
