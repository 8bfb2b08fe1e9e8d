"""What a session uses has one limit, however many calls, commands and sub-agents it is used by."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said

if sys.platform != "win32":
    import resource


def _allow_all(machine: Machine) -> None:
    """Have no call asked about, so that what is left are the limits."""
    rules = [{"tool": "*", "action": "allow"}]
    approval = {"module": "hooks-approval", "config": {"rules": rules}}
    machine.user_settings({"modules": {"hooks": [approval]}})


def _results(server: ModelServer) -> list[str]:
    """Return what the model read of its calls."""
    messages = server.requests[-1]["messages"]
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


# Takes memory and a lock that ends with the process, and counts the locks of the others.
_HOLD_MEMORY = """python3 -c "
import fcntl, os, time
held = open('lock.%d', 'w')
taken = b'x' * (900 << 20)
fcntl.flock(held, fcntl.LOCK_EX)
time.sleep(1)
count = 1
for name in ('lock.0', 'lock.1', 'lock.2', 'lock.3'):
    try:
        with open(name) as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        pass
    except BlockingIOError:
        count += name != held.name
print('at a time:', count)
time.sleep(1)
" """


def _processor_seconds(machine: Machine, calls: list[tuple[str, dict[str, Any]]]) -> float:
    """Return the processor time of a run whose model makes `calls` in one answer."""
    if sys.platform == "win32":
        pytest.skip("Windows does not add up the processor time of children")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        machine.amplifier("run", "x", timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.attack("review M1")
def test_of_many_commands_in_one_answer_a_few_run_at_a_time(machine: Machine) -> None:
    _allow_all(machine)
    # Each command is in the folder while it runs, and counts who else is.
    count = "touch in.$$.$RANDOM; ls -d in.* | wc -l; sleep 0.3; rm in.$$.*"
    calls = [("bash", {"command": count})] * 20
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        done = machine.amplifier("run", "x")

    seen = [re.search(r'"stdout": "(\d+)', each) for each in _results(server)]
    assert done.stdout.strip() == "done", done.stderr
    assert all(seen), _results(server)
    assert max(int(each[1]) for each in seen if each) <= 8


@pytest.mark.slow
@pytest.mark.attack("review M1")
def test_commands_that_run_together_have_one_limit_for_their_memory(machine: Machine) -> None:
    _allow_all(machine)
    calls = [("bash", {"command": _HOLD_MEMORY % number}) for number in range(4)]
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        machine.amplifier("run", "x")

    counts = re.findall(r"at a time: (\d)", "".join(_results(server)))
    # Twice 900 MiB fit into the 2 GiB of a session, three times do not.
    assert counts
    assert max(map(int, counts)) <= 2


@pytest.mark.attack("review M1")
@pytest.mark.parametrize("name", ["/dev/zero", "link", "pipe", "/d*v/zero", "'/dev/ze'ro"])
def test_a_file_that_may_have_no_end_is_not_read_unasked(machine: Machine, name: str) -> None:
    (machine.project / "link").symlink_to("/dev/zero")
    subprocess.run(["mkfifo", str(machine.project / "pipe")], check=True)
    command = f"head -c 1 {name}"
    calls = [("bash", {"command": command, "timeout_seconds": 2})]
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        machine.amplifier("run", "x")

    assert "Denied" in _results(server)[0]
    assert "nobody to ask" in _results(server)[0]


@pytest.mark.attack("review L5")
def test_searches_in_parallel_find_every_file(machine: Machine) -> None:
    for number in range(600):
        (machine.project / f"f{number:03}.txt").write_text("needle\n", "utf-8")
    calls = [("grep", {"pattern": f"needle{'|x' * n}", "files_only": True}) for n in range(8)]
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        command = [sys.executable, "-m", "amplifier_cli", "run", "x"]
        subprocess.run(
            ["/bin/sh", "-c", 'ulimit -n 512; exec "$@"', "sh", *command],
            cwd=machine.project,
            env=machine.environment,
            capture_output=True,
            timeout=120,
            check=True,
        )

    assert [each.splitlines()[0] for each in _results(server)] == [
        "[600 matching lines in 600 files]"
    ] * 8
    assert "unreadable" not in "".join(_results(server))


@pytest.mark.attack("review L6")
def test_a_command_cannot_write_a_file_that_fills_the_disk(machine: Machine) -> None:
    if shutil.disk_usage(machine.project).free < 13 * 1024**3:
        pytest.skip("a file of 11 GiB would not fit on this disk in any case")
    _allow_all(machine)
    large = machine.project / "large"
    calls = [("bash", {"command": "fallocate -l 11G large; ls"})]
    try:
        with ModelServer([Said(calls=calls), Said(["done"])]) as server:
            machine.use(server)
            machine.amplifier("run", "x")
        size = large.stat().st_size
    finally:
        large.unlink(missing_ok=True)

    assert '"stdout": "large' in _results(server)[0]
    assert size <= 10 * 1024**3


@pytest.mark.slow
@pytest.mark.attack("review L6")
def test_commands_that_add_too_much_to_the_disk_are_stopped(machine: Machine) -> None:
    if shutil.disk_usage(machine.project).free < 14 * 1024**3:
        pytest.skip("two files of 6 GiB would not fit on this disk in any case")
    _allow_all(machine)
    fill = {"command": "fallocate -l 6G one; fallocate -l 6G two; sleep 60", "timeout_seconds": 9}
    remove = {"command": "rm one two; ls; echo removed"}
    try:
        script = [Said(calls=[("bash", fill)]), Said(calls=[("bash", remove)]), Said(["done"])]
        with ModelServer(script) as server:
            machine.use(server)
            done = machine.amplifier("run", "x")
    finally:
        for name in ("one", "two"):
            (machine.project / name).unlink(missing_ok=True)

    stopped, removed = _results(server)
    assert "max_disk_bytes" in stopped
    assert "A command was stopped" in done.stderr
    assert "removed" in removed


@pytest.mark.attack("review L7")
def test_an_answer_with_far_too_many_calls_is_survived_and_the_model_knows(
    machine: Machine,
) -> None:
    calls = [("list_directory", {"path": "."})] * 1_000
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        done = machine.amplifier("run", "x")

    assert done.stdout.strip() == "done", done.stderr
    assert 0 < len(_results(server)) < 1_000
    assert "were not run" in str(server.requests[-1]["messages"][-1]["content"])
    assert "1,000 tool calls in one answer" in done.stderr


@pytest.mark.slow
@pytest.mark.attack("review L7")
def test_ten_thousand_calls_cost_little_more_than_a_hundred(machine: Machine) -> None:
    call = ("list_directory", {"path": "."})

    few = _processor_seconds(machine, [call] * 100)
    many = _processor_seconds(machine, [call] * 10_000)

    assert many < 8 * few
