"""The programs of examples/compare do the same with both libraries.

The half with pydantic-ai has an environment of its own, which is built when its tests run;
`COMPARE_PYTHON` names the interpreter of one that exists.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from amplifier_runtime.database.local_postgres import LocalPostgres
from docs.documents import ROOT
from docs.served import SECONDS, ask, read_events, serve

FOLDER = ROOT / "examples" / "compare"
INTERPRETERS = {"amplifier": sys.executable, "pydantic_ai": os.environ.get("COMPARE_PYTHON", "")}
BOTH = ["amplifier", pytest.param("pydantic_ai", marks=pytest.mark.slow)]
REPORTS = [
    "report: [mock] I called read_page and got: The price doubled since 2020.",
    "report: [mock] I called read_page and got: Two mines closed.",
]


def environment_of_pydantic_ai() -> str:
    """Build the environment, unless it is there; returns its interpreter."""
    built = subprocess.run(
        [sys.executable, "-m", "benchmarks.library.environments"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    return built.stdout.strip()


@pytest.fixture(params=BOTH)
def library(request: pytest.FixtureRequest) -> str:
    """The library that a program uses."""
    name: str = request.param
    if not INTERPRETERS[name]:
        INTERPRETERS[name] = environment_of_pydantic_ai()
    return name


def lines_of(program: str, library: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [INTERPRETERS[library], FOLDER / f"{program}_{library}.py", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout.splitlines()


def serving(library: str, store: Path) -> AbstractContextManager[httpx.Client]:
    return serve(INTERPRETERS[library], FOLDER, f"service_{library}:app", store)


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def test_every_program_is_written_with_both_libraries() -> None:
    names = {each.stem for each in FOLDER.glob("*.py")}
    programs = {name.removesuffix("_amplifier") for name in names if name.endswith("_amplifier")}

    assert names == {f"{program}_{library}" for program in programs for library in INTERPRETERS}


def test_the_comparison_names_tests_and_counts_that_are_there() -> None:
    page = (ROOT / "docs" / "reference" / "comparison.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)`", page)
    counted = subprocess.run(
        [sys.executable, "-m", "benchmarks.library.statements"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert named
    assert [name for name in named if name not in globals()] == []
    assert counted in page


def test_an_answer_that_does_not_fit_is_sent_back_and_then_typed(library: str) -> None:
    assert lines_of("extraction", library) == ["Fjord Furniture 2026 542.00"]


def test_sub_agents_have_dependencies_and_report(library: str) -> None:
    lines = lines_of("delegation", library, "20")

    assert sorted(lines[:2]) == REPORTS
    assert lines[2:] == ["answer: Copper is dear because supply fell.", "6 model calls"]


@pytest.mark.parametrize("most_calls", [1, 2, 4, 5])
def test_sub_agents_and_their_lead_stay_within_one_budget(library: str, most_calls: int) -> None:
    *_, stopped, calls = lines_of("delegation", library, str(most_calls))

    assert stopped == "stopped: budget"
    assert int(calls.split()[0]) <= most_calls


def test_whether_requests_at_the_same_time_stay_within_a_budget(library: str) -> None:
    (line,) = lines_of("budget", library)

    # Calls are reserved before they are made, or counted when they have ended.
    made = {"amplifier": 10, "pydantic_ai": 20}[library]
    assert line == f"{made} model calls, {made} answers"


def test_tokens_and_results_are_streamed(library: str, tmp_path: Path) -> None:
    with serving(library, tmp_path) as client:
        events = ask(client, "/ann/first", "Please look up order 7.")

    assert events[:2] == [("tool", "look_up"), ("result", {"order": 7, "customer": "ann"})]
    tokens = [str(text) for name, text in events if name == "token"]
    assert len(tokens) > 3
    assert "".join(tokens).startswith("[mock] I called look_up and got:")
    assert events[-1] == ("done", "completed")


def test_a_conversation_survives_a_kill_between_its_turns(library: str, tmp_path: Path) -> None:
    prompts = ["Please look up order 7.", "Please look up order 8."]
    said: list[str] = []
    for prompt in prompts:
        with serving(library, tmp_path) as client:
            assert ask(client, "/ann/first", prompt)[-1] == ("done", "completed")
            said = client.get("/ann/first").json()

    assert said == prompts


def test_a_disconnect_cancels_the_turn_and_keeps_history_and_spend(
    library: str, tmp_path: Path
) -> None:
    prompts = ["Please track order 7.", "Please look up order 8."]
    with serving(library, tmp_path) as client:
        with client.stream("POST", "/ann/first", json={"prompt": prompts[0]}) as response:
            assert next(read_events(response)) == ("tool", "track")
        until = time.monotonic() + SECONDS
        while not (answer := client.get("/ann/first")).is_success or answer.json() != prompts[:1]:
            assert time.monotonic() < until
            time.sleep(0.05)
        used = client.get("/ann").json()
        last = ask(client, "/ann/first", prompts[1])[-1]
        said = client.get("/ann/first").json()

    # The call that the model was asked for before the disconnect, and none after it.
    assert used == 1
    assert last == ("done", "completed")
    assert said == prompts


def test_the_budget_of_a_user_ends_and_survives_a_kill(library: str, tmp_path: Path) -> None:
    prompt = "Please look up order 7."
    with serving(library, tmp_path) as client:
        first = [ask(client, f"/ann/c{number}", prompt)[-1] for number in range(4)]
    with serving(library, tmp_path) as client:
        later = [ask(client, f"/ann/d{number}", prompt)[-1] for number in range(2)]
        other = ask(client, "/bob/c1", prompt)[-1]

    assert first == [("done", "completed")] * 4
    assert later == [("done", "completed"), ("done", "budget")]
    assert other == ("done", "completed")


def test_what_a_kill_during_a_turn_leaves_of_it(library: str, tmp_path: Path) -> None:
    prompt = "Please track order 7."
    with serving(library, tmp_path) as client:
        request = client.build_request("POST", "/ann/first", json={"prompt": prompt})
        assert next(read_events(client.send(request, stream=True))) == ("tool", "track")
    with serving(library, tmp_path) as client:
        said = client.get("/ann/first").json()

    # Messages are recorded as they come, or by the program when the turn has ended.
    assert said == {"amplifier": [prompt], "pydantic_ai": []}[library]


@pytest.mark.slow
def test_another_process_finishes_a_turn_whose_process_was_killed(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serving() -> AbstractContextManager[httpx.Client]:
        return serve(INTERPRETERS[library], FOLDER, f"durable_{library}:app", tmp_path)

    prompt = {"prompt": "Refund order 7."}
    with LocalPostgres() as server:
        monkeypatch.setenv("DATABASE", server.url)
        with serving() as client:
            turn = client.post("/first", json=prompt).raise_for_status().json()
            wait_until(lambda: "7\n" in text_of(tmp_path / "letters"))
        (tmp_path / "printed").touch()
        with serving() as client:
            same = client.post("/first", json=prompt).raise_for_status().json()
            answer = client.get(f"/first/{turn}").raise_for_status().json()

    assert answer == "Order 7 is refunded."
    assert same == turn
    assert text_of(tmp_path / "refunds") == "7\n"
    # The model reads that the outcome of the call that was cut off is unknown, or it is repeated.
    assert text_of(tmp_path / "letters") == {"amplifier": "7\n", "pydantic_ai": "7\n7\n"}[library]


def test_a_span_of_a_tool_is_below_its_call_and_the_call_below_the_turn(library: str) -> None:
    lines = lines_of("telemetry", library)

    chat, query, call, _, turn = [each.split(" below ") for each in lines]
    assert query == ["query", "execute_tool look_up"]
    assert call == ["execute_tool look_up", turn[0]]
    assert chat[0].startswith("chat ")
    assert chat[1] == turn[0]
    assert turn[0].startswith("invoke_agent")
    assert turn[1] == "nothing"


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("{order} has 3", "{order} has 4"), ("instructions=", "instructions='Kindly.' + ")],
    ids=["nothing", "the-tool", "the-instructions"],
)
def test_the_tests_of_an_agent_notice_what_changed(
    library: str, tmp_path: Path, old: str, new: str
) -> None:
    failed = ["test_the_model_reads_what_the_tool_returned"] if old else []
    program = f"testing_{library}.py"
    text = (FOLDER / program).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / program).write_text(text.replace(old, new), encoding="utf-8")

    done = subprocess.run(
        [INTERPRETERS[library], "-m", "pytest", "-q", program],
        cwd=tmp_path,
        env={**os.environ, "ANTHROPIC_API_KEY": ""},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert re.findall(r"FAILED \S+::(\w+)", done.stdout) == failed, done.stdout
    assert f"{2 - len(failed)} passed" in done.stdout


def test_an_own_model_memory_loop_and_hook_take_part_in_a_turn(library: str) -> None:
    # The loop sends the first answer back. Of the second turn, the model sees two prompts only.
    answered = ["The source is look_up."]
    first = ["acme reads 1 messages", "calls look_up", "acme reads 3 messages"]
    second = ["acme reads 3 messages", "calls look_up", "acme reads 5 messages"]

    lines = lines_of("extension", library)

    sent_back = ["acme reads 5 messages"]
    assert lines == first + sent_back + answered + second + sent_back + answered


def errors_of_pyright(python: str, project: Path) -> list[dict[str, Any]]:
    """Return what pyright reports with the configuration and the files of a folder."""
    command = [sys.executable, "-m", "pyright", "-p", project, "--pythonpath", python]
    done = subprocess.run(
        [*command, "--outputjson"], capture_output=True, text=True, timeout=300, check=False
    )
    report = json.loads(done.stdout)
    # It reports no error for files that it leaves out.
    assert report["summary"]["filesAnalyzed"] > 0
    return [each for each in report["generalDiagnostics"] if each["severity"] == "error"]


@pytest.mark.slow
def test_which_mistakes_a_type_checker_reports(library: str, tmp_path: Path) -> None:
    program = f"mistakes_{library}.py"
    lines = (FOLDER / program).read_text(encoding="utf-8").splitlines()
    numbers = {
        at: int(found[1]) for at, line in enumerate(lines) if (found := re.search(r"# (\d+)", line))
    }
    (tmp_path / program).write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")

    found = errors_of_pyright(INTERPRETERS[library], tmp_path)

    reported = {numbers[each["range"]["start"]["line"]] for each in found}
    # A tool for other dependencies, and the misspelt name of a kernel's event.
    missed = {"amplifier": {5, 11}, "pydantic_ai": set[int]()}[library]
    assert set(numbers.values()) - reported == missed


@pytest.mark.slow
def test_the_programs_pass_two_type_checkers(library: str) -> None:
    programs = set(FOLDER.glob(f"*_{library}.py")) - set(FOLDER.glob("mistakes_*.py"))
    # `make types` has those with `amplifier`.
    errors = [] if library == "amplifier" else errors_of_pyright(INTERPRETERS[library], FOLDER)
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict"),
            *("--python-executable", INTERPRETERS[library], *sorted(programs)),
        ],
        env={**os.environ, "MYPYPATH": str(FOLDER)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert errors == []
    assert checked.stdout == f"Success: no issues found in {len(programs)} source files\n"
    for each in programs:
        assert not re.search(r"\b(Any|cast)\b|type: ignore", each.read_text(encoding="utf-8"))
