"""Messages: every role and every kind of content finds its place on the wire."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from amplifier_core.llm_errors import InvalidRequestError
from contract.requirements import requirement
from wire.conftest import Connect
from wire.line import PICTURE
from wire.vendor import Answer, Said, Vendor

FOREIGN = "c2lnbmVkIGJ5IGFub3RoZXI="


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def picture(**source: str) -> dict[str, Any]:
    return {"type": "image", "source": source}


@requirement("PROV-10")
async def test_a_system_text_goes_to_the_system(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))

    await line.ask(system("Be brief."), "hi")

    assert vendor.sent_system(line.sent) == "Be brief."
    assert vendor.sent_texts(line.sent) == [Said("user", "hi")]


async def test_several_system_texts_keep_their_order(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))

    await line.ask(system("First rule."), system("Second rule."), "hi")

    sent = vendor.sent_system(line.sent)
    assert 0 <= sent.find("First rule.") < sent.find("Second rule.")


async def test_a_system_text_in_mid_conversation_is_not_lost(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(Answer.of("ok"))
    answer = {"role": "assistant", "content": "hello"}

    await line.ask(system("Be brief."), "hi", answer, system("It is late now."), "and you?")

    places = [vendor.sent_system(line.sent), *(said.text for said in vendor.sent_texts(line.sent))]
    assert sum(place.count("It is late now.") for place in places) == 1


@requirement("PROV-10")
async def test_a_developer_speaks_with_more_weight_than_the_user(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(Answer.of("ok"))

    await line.ask({"role": "developer", "content": "Use tabs."}, "hi")

    said = [each for each in vendor.sent_texts(line.sent) if "Use tabs." in each.text]
    assert len(said) == 1
    assert said[0].role == "developer" or "<developer>" in said[0].text


@requirement("PROV-10")
async def test_a_conversation_keeps_its_roles_and_order(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))
    blocks = [{"type": "text", "text": "Fine."}]

    await line.ask(
        "How are you?", {"role": "assistant", "content": blocks}, "And otherwise?",
        {"role": "assistant", "content": "Fine too."}, "Good.",
    )  # fmt: skip

    assert vendor.sent_texts(line.sent) == [
        Said("user", "How are you?"),
        Said("assistant", "Fine."),
        Said("user", "And otherwise?"),
        Said("assistant", "Fine too."),
        Said("user", "Good."),
    ]


@pytest.mark.parametrize(
    "text", ["  spaces around\n\n", "Grüße, 世界 \U0001f44b\U0001f3fd", 'q"\\\t']
)
async def test_a_text_is_sent_to_the_letter(connect: Connect, vendor: Vendor, text: str) -> None:
    line = await connect(Answer.of("ok"))

    await line.ask(text)

    assert vendor.sent_texts(line.sent) == [Said("user", text)]


async def test_the_parts_of_a_message_stay_in_order(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

    await line.ask({"role": "user", "content": parts})

    sent = "".join(said.text for said in vendor.sent_texts(line.sent))
    assert 0 <= sent.find("one") < sent.find("two")


async def test_a_message_with_a_name_is_accepted(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))

    await line.ask({"role": "user", "name": "ada", "content": "hi"})

    assert [said.role for said in vendor.sent_texts(line.sent)] == ["user"]
    assert "hi" in vendor.sent_texts(line.sent)[0].text


async def test_a_picture_is_sent_byte_for_byte(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("a dot"))
    image = picture(type="base64", media_type="image/png", data=PICTURE)

    await line.ask({"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]})

    assert vendor.sent_images(line.sent) == [PICTURE]
    assert b"image/png" in line.server.requests[0].raw
    assert vendor.sent_texts(line.sent) == [Said("user", "What is it?")]


@pytest.mark.needs("image_urls")
async def test_a_picture_is_sent_by_its_address(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("a cat"))

    await line.ask(
        {"role": "user", "content": [picture(type="url", url="https://a.example/c.png")]}
    )

    assert vendor.sent_images(line.sent) == ["https://a.example/c.png"]


def file(data: bytes, media_type: str, name: str) -> dict[str, Any]:
    encoded = base64.b64encode(data).decode()
    return picture(type="base64", media_type=media_type, data=encoded, name=name)


async def test_a_pdf_is_sent_byte_for_byte(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("a report"))
    report = file(b"%PDF-1.7 \xff", "application/pdf", "report.pdf")

    await line.ask({"role": "user", "content": [{"type": "text", "text": "What is it?"}, report]})

    assert vendor.sent_files(line.sent) == [report["source"]["data"]]
    assert b"application/pdf" in line.server.requests[0].raw
    assert vendor.sent_texts(line.sent) == [Said("user", "What is it?")]


@pytest.mark.parametrize("media_type", ["text/plain", "text/csv", "application/json"])
async def test_a_text_file_is_sent_as_text_with_its_name(connect: Connect, media_type: str) -> None:
    line = await connect(Answer.of("a list"))
    notes = file("grün, 7".encode(), media_type, "notes.txt")

    await line.ask({"role": "user", "content": [{"type": "text", "text": "Read it."}, notes]})

    sent = json.dumps(line.sent, ensure_ascii=False)
    assert "grün, 7" in sent
    assert "notes.txt" in sent


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (file(b"PK", "application/zip", "a.zip"), r"`a\.zip` has the type application/zip"),
        (file(b"\xff", "text/plain", "a.txt"), r"`a\.txt` \(text/plain\) is not UTF-8"),
    ],
    ids=["type", "encoding"],
)
async def test_a_file_that_the_vendor_cannot_read_is_refused_before_anything_is_sent(
    connect: Connect, refused: dict[str, Any], reason: str
) -> None:
    line = await connect(Answer.of("never"))

    with pytest.raises(InvalidRequestError, match=reason) as caught:
        await line.ask({"role": "user", "content": [{"type": "text", "text": "Read it."}, refused]})

    assert len(str(caught.value).splitlines()) <= 3
    assert line.server.requests == []


@pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}]])
async def test_an_empty_text_is_not_sent(connect: Connect, vendor: Vendor, content: Any) -> None:
    """Some vendors refuse an empty part, and models that only call a tool leave one behind."""
    line = await connect(Answer.of("ok"))
    call = {"id": "call_1", "tool": "read_file", "arguments": {"path": "a"}}
    message = {"role": "assistant", "content": content, "tool_calls": [call]}

    await line.ask("read", message, {"role": "tool", "tool_call_id": "call_1", "content": "text"})

    assert vendor.sent_texts(line.sent) == [Said("user", "read")]
    assert [each.id for each in vendor.sent_tool_calls(line.sent)] == ["call_1"]


async def test_the_thoughts_of_another_vendor_are_not_sent_to_be_refused(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(Answer.of("ok"))
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "other thoughts", "signature": FOREIGN},
        {"type": "redacted_thinking", "data": FOREIGN},
        {"type": "reasoning", "content": [FOREIGN, "rs_1"], "summary": []},
        {"type": "text", "text": "Fine."},
    ]

    await line.ask("hi", {"role": "assistant", "content": blocks}, "go on")

    assert vendor.sent_checked_fields(line.sent) == []
    assert FOREIGN.encode() not in line.server.requests[0].raw
    assert Said("assistant", "Fine.") in vendor.sent_texts(line.sent)


async def test_fields_of_the_house_stay_in_the_house(connect: Connect) -> None:
    line = await connect(Answer.of("ok"))
    metadata = {"source": "hook", "hook_name": "secret-of-the-app"}
    block = {"type": "text", "text": "hi", "visibility": "user"}

    await line.ask({"role": "user", "content": [block], "metadata": metadata})

    raw = line.server.requests[0].raw
    assert b"secret-of-the-app" not in raw
    assert b"visibility" not in raw
