"""Run one task in one mode: a user's home, a session of the default bundle, and what it asked."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, TypeAlias

from amplifier_foundation.prepare import SessionOptions, open_session, prepare_session
from amplifier_foundation.replay import replay
from amplifier_foundation.store import SessionStore
from amplifier_sandbox.network.package_settings import package_settings
from tasks.task import Call, Task, read_task, script_of
from toolchains.user_home import SECRET, UserHome, write

Mode: TypeAlias = Literal["ask", "edits", "auto"]
Answering: TypeAlias = Literal["once", "lasting"]
MODES: tuple[Mode, ...] = ("ask", "edits", "auto")
ANSWERING: tuple[Answering, ...] = ("once", "lasting")

# How a guard's reason names what leads out of the sandbox (`amplifier_kit.widenings`).
_WIDENINGS = {
    "it needs network to": "network",
    "it needs reading pages of": "pages",
    "it needs writing to": "write",
    "it needs a process that stays": "background",
    "it needs running outside of the sandbox": "outside_sandbox",
}
_PAGE = "<html><title>Release notes</title><p>Call <code>connect(timeout=30)</code>.</p></html>"


@dataclass(frozen=True)
class Question:
    """One question, or one denial without a question: about which calls, and why."""

    tools: list[str]
    reasons: list[str]
    is_denial: bool = False

    @property
    def widenings(self) -> list[str]:
        """The kinds of what leads out of the sandbox that it was about; empty if it was not."""
        return [
            kind
            for words, kind in _WIDENINGS.items()
            if any(words in reason for reason in self.reasons)
        ]


@dataclass
class TaskRun:
    """What came of a task in one mode."""

    task: str
    mode: Mode
    answering: Answering
    questions: list[Question] = field(default_factory=list[Question])
    # What is not as the task says: results, the end, or the replay.
    problems: list[str] = field(default_factory=list[str])
    session_id: str = ""

    @property
    def beyond_widenings(self) -> list[Question]:
        """The questions that were not about a widening."""
        return [each for each in self.questions if not each.widenings]


class User:
    """Allows everything: each call once, or by the first answer that lasts."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        lasting = [each for each in options[1:] if each.startswith("Allow")]
        if self._answering == "lasting" and lasting:
            return lasting[0]
        return options[0]


class Silence:
    """A display that nobody looks at."""

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        """Drop the message."""


def run_task(name: str, mode: Mode, answering: Answering, folder: Path, tools: Path) -> TaskRun:
    """Do a task in a new home below `folder`, with this process as the user's.

    `tools` is the folder of the programs that the user has for their work.
    """
    task = read_task(name)
    home = _home(folder / f"{name}-{mode}-{answering}", tools)
    project = home.folder / "project"
    _build(task, home, project)
    os.environ.clear()
    os.environ.update(home.environment, PATH=home.path)
    os.chdir(project / task.folder)
    result = TaskRun(name, mode, answering)
    with _pages() as address:
        asyncio.run(_run_session(task, home, address, result))
    _check_end(task, home, project, result)
    return result


def _home(folder: Path, tools: Path) -> UserHome:
    home = UserHome(folder)
    home.prepend(tools)
    settings = package_settings()
    home.environment |= {**settings.indexes, **settings.certificates, "LANG": "C.UTF-8"}
    write(
        folder / ".gitconfig",
        "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n",
    )
    return home


def _build(task: Task, home: UserHome, project: Path) -> None:
    project.mkdir()
    for path, text in task.files.items():
        write(project / path, text, is_program=path.endswith(".sh"))
    if task.repository:
        home.run(
            "sh", "-c", "git init -q && git add -A && git commit -qm 'First version'", cwd=project
        )
    if task.prepare:
        home.run("bash", "-euc", task.prepare, cwd=project)


async def _run_session(task: Task, home: UserHome, pages: str, result: TaskRun) -> None:
    bundle = home.folder / "bundle.yaml"
    bundle.write_text(json.dumps(_bundle(task, pages)), "utf-8")
    ready = await prepare_session(SessionOptions(bundle=str(bundle), mode=result.mode))
    async with open_session(
        ready, approval_system=User(result.answering), display_system=Silence()
    ) as live:
        result.session_id = live.session_id
        await live.execute(task.prompt)
        context: Any = live.session.coordinator.get("context")
        messages = await context.get_messages()
    store = SessionStore(home.folder / ".amplifier")
    result.problems += _unexpected(list(task.calls()), messages)
    result.questions += _questions(store, result.session_id)
    replayed = await replay(store.read(result.session_id))
    result.problems += [f"replay: {each}"[:300] for each in replayed.differences[:1]]


def _bundle(task: Task, pages: str) -> dict[str, Any]:
    """Return the default bundle with a scripted model."""
    port = int(pages.rpartition(":")[2])
    web = {"allow_hosts": ["localhost"], "ports": [port]}
    return {
        "bundle": {"name": "recorded-task"},
        "includes": [{"bundle": "default"}],
        "providers": [_model(task.steps, pages)],
        "tools": [{"module": "tool-web", "config": web}],
        "agents": {
            name: {"description": f"An agent, {name}.", "providers": [_model(steps, pages)]}
            for name, steps in task.agents.items()
        },
    }


def _model(steps: list[list[Call]], pages: str) -> dict[str, Any]:
    return {"module": "provider-mock", "config": {"script": script_of(steps, pages)}}


def _unexpected(calls: list[Call], messages: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong with the results: one is missing, other than expected, or a secret."""
    results = [str(each["content"]) for each in messages if each["role"] == "tool"]
    if len(results) != len(calls):
        return [f"{len(calls)} calls have {len(results)} results"]
    wrong = [
        f"{call.tool} {json.dumps(call.arguments)[:200]} returned no `{call.expect}`: {text[:1500]}"
        for call, text in zip(calls, results, strict=True)
        if call.expect not in text
    ]
    return wrong + [f"a secret was read: {text[:200]}" for text in results if SECRET in text]


def _questions(store: SessionStore, session_id: str) -> list[Question]:
    """Return what a session and its children asked and denied, from their logs."""
    asked: dict[str, Question] = {}
    found: list[Question] = []
    for record in store.read(session_id).records():
        if record.kind == "child":
            found += _questions(store, record.data["session_id"])
        if record.kind != "event":
            continue
        name, data = record.data["name"], record.data["data"]
        if name == "approval:required":
            question = asked.setdefault(data["request_id"], Question([], []))
            question.tools.append(data["tool_name"])
            question.reasons.append(data["reason"])
        elif name == "approval:denied" and data["request_id"] not in asked:
            found.append(Question([data["tool_name"]], [data["reason"]], is_denial=True))
    return [*asked.values(), *found]


def _check_end(task: Task, home: UserHome, project: Path, result: TaskRun) -> None:
    try:
        home.run("bash", "-euxc", task.done, cwd=project)
    except AssertionError as error:
        result.problems.append(f"it is not done: {error}")


class _Quiet(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = _PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - prints nothing
        """Print nothing."""


@contextmanager
def _pages() -> Generator[str]:
    """Serve a page to the tool for pages; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
