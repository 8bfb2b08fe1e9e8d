"""Ten varied sessions replay without a difference, and become tests that notice every change."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.replay import replay, to_test
from amplifier_foundation.store import SessionStore
from amplifier_journal.replay.recording import Recording
from amplifier_journal.replay.replayer import replay_recording
from end_to_end.recorded_sessions import NAMES, record

_RESULT_WITH_TOOLS = "parallel_tools"


def family(store: SessionStore, session_id: str) -> list[Any]:
    """Return the readers of a session and of all it started."""
    readers, reader = list[Any](), store.read(session_id)
    for record_ in reader.records():
        if record_.kind == "child":
            readers += family(store, record_.data["session_id"])
    return [reader, *readers]


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_session_replays_twice_without_a_difference(
    name: str, tmp_path: Path
) -> None:
    store = SessionStore(tmp_path / "home")
    session_id = await record(name, store, tmp_path)

    for reader in family(store, session_id):
        first, second = await replay(reader), await replay(reader)

        assert str(first) == f"{first.turns} turn(s) replayed without a difference."
        assert first == second
        assert first.turns >= 1


@pytest.mark.parametrize("name", NAMES)
async def test_a_replay_asks_nobody_and_leaves_the_project_alone(name: str, tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "home")
    session_id = await record(name, store, tmp_path)
    before = {each.name: each.read_bytes() for each in (tmp_path / "project").iterdir()}
    for each in (tmp_path / "project").iterdir():
        each.unlink()

    assert not (await replay(store.read(session_id))).differences

    assert before
    assert not list((tmp_path / "project").iterdir())


async def test_every_answer_of_a_model_matters_to_a_replay(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "home")
    session_id = await record("streaming", store, tmp_path)
    records = list(store.read(session_id).records())
    answer = next(each for each in records if each.kind == "model.result")
    answer.data["response"]["content"][-1]["text"] = "Something else."

    differences = (await replay_recording(Recording(session_id, records))).differences

    shown = "\n".join(map(str, differences))
    assert "turn 1" in shown
    assert "the assistant message differs" in shown
    assert "how the turn ended differs" in shown
    assert '-      "text": "It streams.",' in shown
    assert '+      "text": "Something else.",' in shown


@pytest.mark.slow
async def test_generated_tests_pass_and_one_changed_byte_fails_exactly_its_test(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "generated"
    (folder / "cassettes").mkdir(parents=True)
    for name in NAMES:
        store = SessionStore(tmp_path / name / "home")
        root, *children = family(store, await record(name, store, tmp_path / name))
        test = to_test(root, name, children=children)
        (folder / f"test_{name}.py").write_text(test.source, encoding="utf-8")
        (folder / f"cassettes/{test.name}.jsonl.gz").write_bytes(test.cassette)

    passing = run_pytest(folder)
    assert passing.returncode == 0, passing.stdout
    assert "10 passed" in passing.stdout

    change_one_byte_of_a_tool_result(folder / f"cassettes/{_RESULT_WITH_TOOLS}.jsonl.gz")
    failing = run_pytest(folder)

    assert "1 failed, 9 passed" in failing.stdout, failing.stdout
    assert f"FAILED test_{_RESULT_WITH_TOOLS}.py" in failing.stdout
    assert "the tool message differs" in failing.stdout
    assert "--- recorded" in failing.stdout
    assert "+++ replayed" in failing.stdout


def change_one_byte_of_a_tool_result(cassette: Path) -> None:
    lines = gzip.decompress(cassette.read_bytes()).splitlines(keepends=True)
    at = next(n for n, each in enumerate(lines) if b'"kind": "tool.result"' in each)
    place = lines[at].index(b'"output": "') + len(b'"output": "')
    lines[at] = lines[at][:place] + b"#" + lines[at][place + 1 :]
    cassette.write_bytes(gzip.compress(b"".join(lines)))


def run_pytest(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    return subprocess.run(
        [*command, "-rf", str(folder)], cwd=folder, capture_output=True, text=True, timeout=120
    )
