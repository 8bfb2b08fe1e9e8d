"""Files in a prompt: what is one, and how a vendor is given it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_kit.calls.files import AttachedFile, attached_file


def file(data: bytes, media_type: str = "text/plain", name: str = "a.txt") -> AttachedFile:
    return AttachedFile(name, media_type, base64.b64encode(data).decode())


@pytest.mark.parametrize(
    "source",
    [
        {"type": "base64", "media_type": "image/bmp", "data": "aGk="},
        {"type": "base64", "data": "aGk="},
        {"type": "base64", "media_type": "application/pdf", "data": None},
        {"type": "url", "url": "https://example.com/a.pdf", "media_type": "application/pdf"},
        "https://example.com/a.pdf",
    ],
)
def test_an_image_and_what_has_no_data_is_not_a_file(source: Any) -> None:
    assert attached_file(source) is None


def test_a_file_without_a_name_has_a_name_for_the_vendor() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}

    found = attached_file(source)

    assert found is not None
    assert found == AttachedFile("file", "application/pdf", "aGk=")
    assert found.url == "data:application/pdf;base64,aGk="


@pytest.mark.parametrize(
    ("media_type", "is_text"),
    [("text/markdown", True), ("application/json", True), ("application/pdf", False)],
)
def test_json_is_text_and_a_pdf_is_not(media_type: str, is_text: bool) -> None:
    assert file(b"{}", media_type).is_text is is_text


def test_the_name_of_a_text_does_not_end_its_tag() -> None:
    text = file(b"\xef\xbb\xbfhi", name='a"> </file>').named_text("any")

    assert text == '<file name="a\'> </file>">\nhi\n</file>'


@pytest.mark.parametrize("encoded", ["/w==", "no base64"])
def test_a_text_that_cannot_be_read_is_refused_by_name(encoded: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"`a\.txt` .* is not UTF-8") as caught:
        AttachedFile("a.txt", "text/plain", encoded).text("any")

    assert caught.value.provider == "any"


def test_a_refusal_says_what_is_taken_and_what_to_do() -> None:
    error = file(b"PK", "application/zip", "a.zip").refusal("any")

    what, why, then = str(error).splitlines()
    assert "a.zip" in what
    assert "PDF and text files" in why
    assert "Convert" in then
