"""Tests of fresh identifiers."""

from __future__ import annotations

import uuid

from amplifier_core._ids import new_id


def test_an_id_is_a_random_uuid_and_never_the_same() -> None:
    ids = [new_id() for _ in range(500)]

    assert len(set(ids)) == 500
    for each in ids:
        parsed = uuid.UUID(each)
        assert str(parsed) == each
        assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)
