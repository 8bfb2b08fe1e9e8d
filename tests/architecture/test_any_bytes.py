"""Whatever a prompt, an answer and a tool say: the session runs, is resumed and is replayed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile_files import run_on_files
from hostile_sessions import Session

_TEXT = st.lists(
    st.one_of(
        st.characters(),
        st.sampled_from(["\x00", "\ud83d", "\ude00", "\ud800", "\udfff", "\udce9", "\\ud800"]),
    ),
    max_size=8,
).map("".join)
_DATA: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_TEXT, st.integers(), st.floats(), st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=8,
)
_KINDS = ("text", "data", "plain", "content", "error", "raised")


@st.composite
def _sessions(draw: st.DrawFn) -> Session:
    """Return a session in which the model calls a tool in each of its two turns."""
    answers: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for turn in range(2):
        call = {
            "id": f"{turn}{draw(_TEXT)}",
            "name": "speak",
            "arguments": {"result": turn, "more": draw(_DATA)},
        }
        answers.append({"pieces": draw(st.lists(_TEXT, max_size=3)), "calls": [call]})
        kind = draw(st.sampled_from(_KINDS))
        value = draw(_DATA if kind in ("data", "plain") else _TEXT)
        results.append({"kind": kind, "value": value})
        answers.append({"pieces": draw(st.lists(_TEXT, min_size=1, max_size=3)), "calls": []})
    return Session(
        number=0,
        prompts=(f"{draw(_TEXT)}?", f"{draw(_TEXT)}!"),
        answers=answers,
        results=results,
        loop=draw(st.sampled_from(["loop-basic", "loop-streaming"])),
        memory=draw(st.sampled_from(["context-simple", "context-persistent"])),
        killed_at=None,
    )


@pytest.mark.slow
# A session is opened three times for each example; the fuzzer runs thousands.
@settings(deadline=None, max_examples=15)
@given(_sessions())
def test_any_session_runs_is_resumed_and_is_replayed(session: Session) -> None:
    with tempfile.TemporaryDirectory() as folder:
        counts, failures = run_on_files([session], Path(folder))

    assert failures == []
    assert counts == {"sessions": 1, "turns resumed": 1, "replayed": 1}
