"""Secrets that a session meets are in nothing that is kept of it: log, blobs, lists, cassette."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from amplifier_foundation.live import open_live
from amplifier_foundation.store import SessionStore
from amplifier_journal.replay.cassette import to_test
from end_to_end.recorded_sessions import call, files, plan_of
from end_to_end.secret_examples import EXAMPLES

# Known, because a variable that is called a token holds it; the other has only its form.
KNOWN = 'canary/7Zt+4bX9"wLm2?Kd8>Qr5'
FORMED = EXAMPLES["github-token"]
BOTH = f"{KNOWN} and {FORMED}"
MARKS = ("[REDACTED:DEPLOY_TOKEN]", "[REDACTED:github-token]")
# As a prompt and in a file that a tool reads; more than stays in a record.
LARGE = "\n".join((BOTH, *["a line of text"] * 9_000, BOTH))


def leaks_in(text: str) -> list[str]:
    """Return the forms of the secrets that a text has, halves of them too."""
    forms = {
        "plain": KNOWN,
        "in JSON": json.dumps(KNOWN)[1:-1],
        "in JSON in JSON": json.dumps(json.dumps(KNOWN)[1:-1])[1:-1],
        "in a URL": quote(KNOWN, safe=""),
        "formed": FORMED,
        "head": KNOWN[:15],
        "tail": KNOWN[-10:],
        "formed head": FORMED[:20],
    }
    return [name for name, form in forms.items() if form in text]


@pytest.fixture
async def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SessionStore, str]:
    """A session without any hook that redacts, which meets the secrets in every place."""
    monkeypatch.setenv("DEPLOY_TOKEN", KNOWN)
    project = tmp_path / "project"
    project.mkdir()
    (project / "secrets.txt").write_text(LARGE, encoding="utf-8")
    script: list[Any] = [
        {"text": f"I use {BOTH}.", "tool_calls": [call("read_file", file_path="secrets.txt")]},
        {
            "thinking": f"They gave me {BOTH}",
            "tool_calls": [call("write_file", file_path="b.txt", content=BOTH)],
        },
        {"tool_calls": [call("read_file", file_path=f"no-{FORMED}.txt")]},
        f"Done with {BOTH}.",
        {"error": {"type": "AuthenticationError", "message": f"401 for {BOTH}"}},
    ]
    plan = plan_of(script, tools=(files(tmp_path / "saved"),))
    store = SessionStore(tmp_path / "home")
    async with open_live(plan, store=store, project=project) as live:
        await live.execute(f"Remember {LARGE}")
        with pytest.raises(Exception, match="401"):
            await live.execute("And again.")
    async with open_live(
        plan_of(["Still here."]),
        store=store,
        project=project,
        session_id=live.session_id,
        resume=True,
    ) as again:
        await again.execute("What was it?")
    return store, live.session_id


@pytest.mark.attack("K2")
async def test_no_secret_is_in_anything_that_is_kept_of_a_session(
    recorded: tuple[SessionStore, str],
) -> None:
    store, session_id = recorded
    kept = {path.name: path for path in store.home.rglob("*") if path.is_file()}

    assert {
        name: leaks_in(_text(path)) for name, path in kept.items() if leaks_in(_text(path))
    } == {}

    log = _text(store.read(session_id).folder / "log.jsonl")
    for mark in MARKS:
        assert log.count(mark) > 5
    assert "tool.result" in log
    assert "there is no tool" not in log
    blobs = [_text(path) for path in (store.home / "blobs").rglob("*") if len(path.name) == 64]
    assert any(all(mark in text for mark in MARKS) for text in blobs)


@pytest.mark.attack("K2")
async def test_no_secret_is_in_the_test_that_a_session_becomes(
    recorded: tuple[SessionStore, str],
) -> None:
    store, session_id = recorded

    made = to_test(store.read(session_id), "remember")

    cassette = gzip.decompress(made.cassette).decode()
    assert leaks_in(cassette) == []
    assert leaks_in(made.source) == []
    assert all(mark in cassette for mark in MARKS)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
