"""Commands that need more than their sandbox gives: what is opened for them, and what is not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.widenings import Widening
from amplifier_module_tool_bash import mount

# Asks through the proxy even for a host that is reached directly otherwise.
_GET = (
    "no_proxy= NO_PROXY= /usr/bin/python3 -c 'import sys, urllib.request as r; "
    "print(r.urlopen(sys.argv[1]).read())' "
)


@pytest.fixture
def repository(workspace: Path) -> Path:
    """The workspace as a real repository, with a file to commit."""
    (workspace / ".git" / "HEAD").unlink()
    subprocess.run(["/usr/bin/git", "init", "-q", "-b", "main"], cwd=workspace, check=True)
    (workspace / "file").write_text("text\n", "utf-8")
    return workspace


@pytest.fixture
def identity(tmp_path: Path) -> Callable[[], None]:
    """Writes the user's own settings of git."""

    def write() -> None:
        home = tmp_path / "user"
        home.mkdir(exist_ok=True)
        settings = "[user]\n\tname = Ann\n\temail = ann@example.org\n"
        (home / ".gitconfig").write_text(settings, "utf-8")

    return write


@pytest.fixture
async def index() -> AsyncIterator[int]:
    """A server of this machine; returns its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nindex")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


# --- writing --------------------------------------------------------------------------------------


async def test_a_commit_that_fails_says_what_to_ask_for(bash: Any, repository: Path) -> None:
    result = await bash("git add file && git commit -qm one")

    assert not result.success
    assert 'repeat it with write: [".git"] and a reason' in result.output["trouble"]


async def test_a_commit_is_made_under_the_name_of_the_user(
    bash: Any, repository: Path, identity: Any
) -> None:
    identity()

    result = await bash(
        "git add file && git commit -qm one && git log --format=%an,%ae",
        write=[".git"],
        reason="to commit",
    )

    assert result.output["stdout"] == "Ann,ann@example.org\n", result.output


async def test_a_commit_is_made_in_a_workspace_behind_a_link(
    coordinator: Any, mounted: Any, repository: Path, identity: Any, tmp_path: Path
) -> None:
    identity()
    (tmp_path / "link").symlink_to(repository)
    tool = await mounted(working_dir=str(tmp_path / "link"))
    call = {"command": "git add . && git commit -qm one", "write": [".git"], "reason": "so"}
    await tool.widenings(call)

    result = await tool.execute(call)

    assert result.success, result.output


@pytest.mark.attack("W1")
async def test_hooks_run_in_the_sandbox_and_cannot_be_changed(
    bash: Any, repository: Path, identity: Any, tmp_path: Path
) -> None:
    identity()
    hook = repository / ".git" / "hooks" / "pre-commit"
    outside = tmp_path / "outside" / "witness"
    hook.write_text(f"#!/bin/sh\necho hooked >&2; echo gone > {outside}; exit 0\n", "utf-8")
    hook.chmod(0o755)

    result = await bash(
        "git add file && git commit -qm one; for f in hooks/pre-commit config; do "
        "echo x >> .git/$f; done; rm .git/hooks/pre-commit",
        write=[".git"],
        reason="to commit",
    )

    assert "hooked" in result.output["stderr"]
    assert result.output["stderr"].count("Read-only file system") == 3
    assert outside.read_text("utf-8") == "untouched"
    assert "x\n" not in (repository / ".git" / "config").read_text("utf-8")


async def test_a_git_command_that_fails_without_a_word_is_told_what_to_ask_for(
    bash: Any, repository: Path, identity: Any
) -> None:
    identity()
    first = "git add file && git commit -qm one && echo more >> file"
    assert (await bash(first, write=[".git"], reason="to commit")).success

    failed = await bash("git stash push")
    differs = await bash("git diff --quiet")
    stashed = await bash("git stash push", write=[".git"], reason="to stash")

    assert 'repeat it with write: [".git"]' in failed.output["trouble"]
    assert "write" not in differs.output["trouble"]
    assert stashed.success, stashed.output


@pytest.mark.attack("W1")
async def test_a_folder_outside_can_be_written_to_and_only_that_one(
    bash: Any, mounted: Any, tmp_path: Path
) -> None:
    (tmp_path / "given").mkdir()

    result = await bash(
        f"echo new > {tmp_path}/given/file; echo new > {tmp_path}/outside/witness",
        write=[str(tmp_path / "given")],
        reason="to write",
    )

    assert not result.success
    assert (tmp_path / "given" / "file").read_text("utf-8") == "new\n"
    assert (tmp_path / "outside" / "witness").read_text("utf-8") == "untouched"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "root of the file system"),
        ("~", "your home folder"),
        (".amplifier", "only `.git` can be opened there"),
        ("/no/such/folder", "does not exist"),
    ],
)
async def test_some_paths_can_be_opened_by_nobody(mounted: Any, path: str, words: str) -> None:
    tool = await mounted()
    call = {"command": "true", "write": [path], "reason": "to write"}

    assert words in tool.preflight(call)
    assert words in (await tool.execute(call)).error["message"]


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "name", [".ssh", ".ssh/id", ".aws", ".config", ".config/gh", ".netrc", ".CONFIG/Gh", "dotfiles"]
)
async def test_a_folder_of_keys_is_opened_by_nobody(
    mounted: Any, tmp_path: Path, name: str
) -> None:
    home = tmp_path / "user"
    for folder in (".ssh/id", ".aws", ".config/gh", "keys/.ssh"):
        (home / folder).mkdir(parents=True)
    (home / "dotfiles").symlink_to("keys/.ssh")
    (home / ".gnupg").symlink_to("keys")
    tool = await mounted()

    for path in (home / name, home / ".gnupg"):
        call = {"command": "true", "write": [str(path)], "reason": "to write"}
        assert "may have keys in it" in tool.preflight(call)
        assert "may have keys in it" in (await tool.execute(call)).error["message"]


# --- network --------------------------------------------------------------------------------------


async def test_a_refused_connection_says_what_to_ask_for(bash: Any) -> None:
    result = await bash(_GET + "http://example.org/")

    assert "refused to connect to example.org:80" in result.output["trouble"]
    assert 'network: ["example.org"]' in result.output["trouble"]


async def test_the_index_of_the_user_is_shown_with_its_address_and_then_reached(
    mounted: Any, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = await mounted()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://user:password@localhost:{index}/simple")
    address = f"http://localhost:{index}/"
    call = {"command": _GET + address, "network": ["packages"], "reason": "to install"}

    shown = await tool.widenings(call)
    result = await tool.execute(call)
    settings = await tool.execute({"command": "echo $PIP_INDEX_URL"})

    assert [each.kind for each in shown] == ["network"]
    assert f"localhost:{index}=127.0.0.1" in shown[0].target
    assert result.output["stdout"] == "b'index'\n", result.output
    assert settings.output["stdout"] == f"http://localhost:{index}/simple\n"


@pytest.mark.attack("W1")
async def test_an_index_of_the_user_opens_one_port_of_one_host(
    mounted: Any, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = await mounted()
    monkeypatch.setenv("GOPROXY", f"http://user:password@127.0.0.1:{index}/go,direct")
    others = (f"localhost:{index}", f"127.0.0.2:{index}", f"127.0.0.1:{index - 1}")
    call = {"network": ["packages"], "reason": "to install"}

    shown = await tool.widenings({**call, "command": "true"})
    given = await tool.execute({**call, "command": f"{_GET}http://127.0.0.1:{index}/"})

    assert f"127.0.0.1:{index}=127.0.0.1" in shown[0].target
    assert "password" not in str(shown)
    assert given.output["stdout"] == "b'index'\n", given.output
    for place in others:
        result = await tool.execute({**call, "command": f"{_GET}http://{place}/"})
        assert f"refused to connect to {place}" in result.output["trouble"], result.output


@pytest.mark.attack("W1")
async def test_a_project_that_names_an_index_opens_nothing(
    mounted: Any, index: int, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = await mounted()
    address = f"http://127.0.0.1:{index}/"
    (workspace / ".npmrc").write_text(f"registry={address}\n", "utf-8")
    (workspace / "pip.conf").write_text(f"[global]\nindex-url={address}\n", "utf-8")
    (workspace / "uv.toml").write_text(f'index-url = "{address}"\n', "utf-8")
    (workspace / ".cargo").mkdir()
    (workspace / ".cargo" / "config.toml").write_text(
        f'[registries.local]\nindex = "sparse+{address}"\n', "utf-8"
    )
    monkeypatch.chdir(workspace)
    call = {"command": _GET + address, "network": ["packages"], "reason": "to install"}

    shown = await tool.widenings(call)
    result = await tool.execute(call)

    assert str(index) not in str(shown)
    assert f"refused to connect to 127.0.0.1:{index}" in result.output["trouble"]


@pytest.mark.attack("W2")
async def test_what_nobody_was_asked_about_is_not_opened(mounted: Any, tmp_path: Path) -> None:
    tool = await mounted()
    call = {"command": "true", "network": ["example.org"], "reason": "so"}
    later = {"command": "true", "write": [str(tmp_path / "later")], "reason": "so"}

    unasked = await tool.execute(call)
    # It does not exist when the guard asks, and does when the command is run.
    shown = await tool.widenings(later)
    (tmp_path / "later").mkdir()
    unshown = await tool.execute(later)

    assert shown == []
    for result in (unasked, unshown):
        assert "nobody was asked about what it needs" in result.error["message"]


@pytest.mark.attack("W3")
async def test_a_pass_is_for_its_own_command_only(
    mounted: Any, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = await mounted()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://localhost:{index}/simple")
    address = f"http://localhost:{index}/"
    call = {"command": _GET + address, "network": ["packages"], "reason": "to install"}
    await tool.widenings(call)
    given = await tool.execute({**call, "command": "echo $http_proxy > proxy"})

    result = await tool.execute({"command": f"http_proxy=$(cat proxy) {_GET}{address}"})

    assert given.success
    assert not result.success
    assert "407" in result.output["stderr"]


# --- background -----------------------------------------------------------------------------------


async def test_a_server_stays_is_reached_by_the_next_call_and_is_stopped(
    mounted: Any, coordinator: Any
) -> None:
    tool = await mounted()
    jobs = coordinator.get_mounted("tools")["bash_jobs"]
    serve = "echo here > page; exec /usr/bin/python3 -m http.server 8123 --bind 127.0.0.1"
    started = await tool.execute({"command": serve, "background": True, "reason": "to serve"})
    ask = "for i in $(seq 600); do exec 3<>/dev/tcp/127.0.0.1/8123 && break; sleep 0.1; done; "

    asked = await tool.execute(
        {"command": ask + "printf 'GET /page HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"}
    )
    listed = await jobs.execute({"operation": "list"})
    output = await jobs.execute({"operation": "output", "job": "job-1"})
    stopped = await jobs.execute({"operation": "stop", "job": "job-1"})
    later = await tool.execute({"command": "exec 3<>/dev/tcp/127.0.0.1/8123"})

    assert started.output["state"] == "running"
    assert asked.output["stdout"].endswith("here\n"), asked.output
    assert [(each["job"], each["state"]) for each in listed.output] == [("job-1", "running")]
    assert "GET /page" in output.output["stderr"]
    assert stopped.output["state"] == "stopped"
    assert not later.success


async def test_a_command_that_does_not_stay_is_reported(
    bash: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amplifier_module_tool_bash.jobs._FIRST_SECONDS", 60.0)

    result = await bash("echo no such port >&2; exit 3", background=True, reason="to serve")

    assert not result.success
    assert result.error["message"] == "The command did not stay: it ended with exit code 3."
    assert result.output["stderr"] == "no such port\n"


ESCAPES = {
    "plain": "sleep 600",
    "new session": "setsid sleep 600 & wait",
    "ignores hangups": "nohup sleep 600 & disown; sleep 600",
    "double fork": "(sleep 600 &) ; (setsid sh -c 'sleep 600 &' &); sleep 600",
    "ignores signals": "trap '' TERM INT HUP; sleep 600; sleep 600",
}


@pytest.mark.attack("W4")
@pytest.mark.parametrize("way", ESCAPES)
async def test_what_runs_in_the_background_ends_with_the_session(
    mounted: Any,
    coordinator: Any,
    workspace: Path,
    processes_of: Callable[[], list[str]],
    way: str,
) -> None:
    cleanup = await mount(coordinator, {"working_dir": str(workspace)})
    tool = coordinator.get_mounted("tools")["bash"]
    await tool.execute({"command": ESCAPES[way], "background": True, "reason": "to wait"})
    # A busy machine may still be starting it.
    assert await wait_for(lambda: bool(processes_of()), timeout=60)

    await cleanup()

    assert await wait_for(lambda: processes_of() == [], timeout=60)


_PROGRAM = """
import asyncio, sys
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_bash import mount

async def main():
    coordinator = MockCoordinator()
    await mount(coordinator, {"working_dir": sys.argv[1]})
    bash = coordinator.get("tools", "bash")
    call = {"command": "setsid sleep 600 & sleep 600", "background": True, "reason": "to wait"}
    print((await bash.execute(call)).output["state"], flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.attack("W4")
async def test_what_runs_in_the_background_ends_with_a_killed_process(
    mounted: Any, workspace: Path, processes_of: Callable[[], list[str]]
) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", _PROGRAM, str(workspace), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    assert await program.stdout.readline() == b"running\n"

    program.kill()
    await program.wait()

    assert await wait_for(lambda: processes_of() == [], timeout=60)


@pytest.mark.attack("W1")
async def test_a_folder_in_one_that_was_given_is_not_given_again(
    mounted: Any, tmp_path: Path
) -> None:
    """A command could replace it with a link between the question and the mount."""
    tool = await mounted()
    (tmp_path / "given" / "inner").mkdir(parents=True)
    outer = {"command": "true", "write": [str(tmp_path / "given")], "reason": "so"}
    await tool.widenings(outer)
    await tool.execute(outer)

    refusal = tool.preflight({**outer, "write": [str(tmp_path / "given" / "inner")]})

    assert "commands could write to" in refusal


async def test_a_check_and_a_question_give_nothing(mounted: Any, tmp_path: Path) -> None:
    tool = await mounted()
    (tmp_path / "denied" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "denied")
    outer = {"command": "true", "write": [str(tmp_path / "denied")], "reason": "so"}
    linked = {**outer, "write": [str(tmp_path / "link")]}

    for call in (outer, linked):
        assert tool.preflight(call) is None
        await tool.widenings(call)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "outside")

    assert tool.preflight({**outer, "write": [str(tmp_path / "denied" / "inner")]}) is None
    assert tool.preflight(linked) is None
    assert await tool.widenings(linked) == [Widening("write", str(tmp_path / "outside"))]


@pytest.mark.attack("W1")
async def test_a_path_that_leads_elsewhere_after_the_question_is_not_opened(
    mounted: Any, tmp_path: Path
) -> None:
    tool = await mounted()
    (tmp_path / "given").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "given")
    call = {"command": "true", "write": [str(tmp_path / "link")], "reason": "so"}
    shown = await tool.widenings(call)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "outside")

    result = await tool.execute(call)

    assert shown == [Widening("write", str(tmp_path / "given"))]
    assert "a path leads elsewhere since it was asked about" in result.error["message"]


async def test_a_job_that_does_not_exist_is_refused_by_name(mounted: Any, coordinator: Any) -> None:
    await mounted()
    jobs = coordinator.get_mounted("tools")["bash_jobs"]

    result = await jobs.execute({"operation": "stop", "job": "job-9"})

    assert result.error["message"] == "There is no job `job-9`. Known: none."


# --- outside, and asking --------------------------------------------------------------------------


async def test_outside_of_the_sandbox_a_command_is_the_users_own_but_has_no_keys(
    bash: Any, tmp_path: Path
) -> None:
    result = await bash(
        f"cat {tmp_path}/outside/witness; echo; echo $HOME; env | grep -c ANTHROPIC",
        outside_sandbox=True,
        reason="to look",
    )

    assert result.output["stdout"] == f"untouched\n{tmp_path}/user\n0\n"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"network": ["example.org"]}, "`reason` must say why"),
        ({"background": True, "reason": " "}, "`reason` must say why"),
        ({"outside_sandbox": True, "write": ["/srv"], "reason": "so"}, "give it alone"),
        ({"network": ["localhost"], "reason": "so"}, "is no domain"),
        ({"network": ["*"], "reason": "so"}, "is no domain"),
    ],
)
async def test_what_cannot_be_asked_for_is_answered_in_plain_words(
    bash: Any, given: dict[str, Any], words: str
) -> None:
    result = await bash("true", **given)

    assert words in result.error["message"]


@pytest.mark.parametrize("config", [{"ask": False}, {"allow": ["true"]}])
async def test_without_a_guard_of_all_tools_its_own_guard_asks(
    mounted: Any, coordinator: Any, config: dict[str, Any]
) -> None:
    await mounted(**config)
    call = {"command": "true", "network": ["example.org"], "reason": "so"}

    answer = await coordinator.hooks.emit("tool:pre", {"tool_name": "bash", "tool_input": call})

    assert answer.action == "ask_user"
    assert "Asked because it needs network to example.org." in answer.approval_prompt


async def test_the_guard_of_all_tools_asks_alone(mounted: Any, coordinator: Any) -> None:
    await mounted(ask=False)
    coordinator.register_capability("approval.grants", object())
    call = {"command": "true", "network": ["example.org"], "reason": "so"}

    answer = await coordinator.hooks.emit("tool:pre", {"tool_name": "bash", "tool_input": call})

    assert answer.action == "continue"


async def test_a_call_says_what_it_needs(mounted: Any, repository: Path) -> None:
    tool = await mounted()

    needed = await tool.widenings(
        {
            "command": "true",
            "network": ["example.org", "*.example.org:8443"],
            "write": [".git"],
            "background": True,
            "reason": "so",
        }
    )

    assert needed == [
        Widening("network", "example.org"),
        Widening("network", "*.example.org:8443"),
        Widening("write", str(repository / ".git")),
        Widening("background"),
    ]


@pytest.mark.parametrize(
    ("needs", "is_outside"),
    [
        ({}, False),
        ({"write": [".git"], "reason": "so"}, False),
        ({"network": ["packages"], "reason": "so"}, False),
        ({"network": ["packages", "example.org"], "reason": "so"}, True),
        ({"outside_sandbox": True, "reason": "so"}, True),
    ],
)
async def test_it_says_which_calls_bring_text_from_outside(
    mounted: Any, needs: dict[str, Any], is_outside: bool
) -> None:
    tool = await mounted()

    assert tool.reaches_outside({"command": "true", **needs}) is is_outside
    assert tool.reaches_outside(None)
