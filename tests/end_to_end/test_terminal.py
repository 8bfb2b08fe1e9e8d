"""The chat in a real terminal: streamed, asked, stopped, killed, resumed, shared."""

from __future__ import annotations

import os
import re
from pathlib import Path
from threading import Event

import pytest

from amplifier_sandbox.platforms.signals import KILL
from end_to_end.chat_runs import ChatRun, assert_looks_like, conversation, normalised
from end_to_end.model_server import ModelServer, Said

pytestmark = pytest.mark.slow

# Of what a terminal is told about looks: bold, dim, italic, underlined, turned round, and back.
_NO_COLORS = {"", "0", "1", "2", "3", "4", "7", "39", "49"}
_LISTING = """\
There are **two files**:

1. `notes.md`, which says what is to be done
2. `main.py`

```python
def main() -> None:
    print("hello")
```

Nothing else."""

_CART = """\
from decimal import Decimal


def total(cart):
    return sum((price for _, price, _ in cart), Decimal(0))
"""
_OLD = "price for _, price, _ in cart"
_NEW = "price * count for _, price, count in cart"


def test_a_tool_runs_after_the_person_has_seen_exactly_what_it_will_do(tmp_path: Path) -> None:
    command = "echo first | tee log; echo second"
    script = [Said(["I look."], [("bash", {"command": command})]), Said([_LISTING])]
    with ModelServer(script) as server, ChatRun(tmp_path, server).chat() as screen:
        screen.wait_for("ready")
        screen.type("what is in this folder?")
        screen.press("Enter")
        asked = screen.wait_for("1 Allow once", "2 Allow exactly this call, this session", "4 Deny")
        assert_looks_like(asked, "question")
        screen.press("1")
        assert_looks_like(screen.wait_for("Nothing else.", "ready"), "answer")
        screen.type("/expand")
        screen.press("Enter")
        assert_looks_like(screen.wait_for("│ second"), "expanded")


def test_the_bare_command_opens_a_chat(tmp_path: Path) -> None:
    with ModelServer([]) as server, ChatRun(tmp_path, server).command() as screen:
        assert "using the mock model" in screen.wait_for("ready", "mock-model")


def test_a_prompt_on_the_command_line_is_sent_first(tmp_path: Path) -> None:
    with ModelServer([Said(["Good morning."]), Said(["Gladly."])]) as server:
        with ChatRun(tmp_path, server).chat("good", "morning") as screen:
            screen.wait_for("› good morning", "Good morning.", "ready")
            screen.type("thanks")
            screen.press("Enter")
            screen.wait_for("Gladly.", "ready")
        assert len(server.requests) == 2


def test_enter_takes_the_highlighted_option_and_arrows_move_it(tmp_path: Path) -> None:
    calls = [Said(calls=[("bash", {"command": f"touch {name}"})]) for name in ("one", "two")]
    with ModelServer([*calls, Said(["All right."])]) as server:
        run = ChatRun(tmp_path, server)
        with run.chat() as screen:
            screen.wait_for("ready")
            screen.type("make them")
            screen.press("Enter")
            screen.wait_for("touch one", "say why")
            screen.press("Enter")
            screen.wait_for("touch two", "say why")
            screen.press("Down", "Right", "Left", "Down", "Down")
            screen.press("Enter")
            assert "⊘ bash" in screen.wait_for("All right.", "ready")
        assert (run.project / "one").exists()
        assert not (run.project / "two").exists()


def test_letters_answer_and_escape_denies_without_stopping_the_turn(tmp_path: Path) -> None:
    names = ("once", "not", "lasting", "lasting", "escaped")
    calls = [Said(calls=[("bash", {"command": f"touch {name}"})]) for name in names]
    with ModelServer([*calls, Said(["All done."])]) as server:
        run = ChatRun(tmp_path, server)
        with run.chat() as screen:
            screen.wait_for("ready")
            screen.type("make them")
            screen.press("Enter")
            for name, key in (("once", "y"), ("not", "n"), ("lasting", "a"), ("escaped", "Escape")):
                screen.wait_for(f"$ touch {name}\n", "say why")
                screen.press(key)
            shown = screen.wait_for("All done.", "ready")
            assert shown.count("┗ Deny") == 2
            assert "Stopped" not in shown
        made = {each.name for each in run.project.iterdir()}
        assert made == {"once", "lasting"}
        assert len(server.requests) == 6


def test_a_message_that_begins_like_an_answer_is_not_one(tmp_path: Path) -> None:
    script = [Said(calls=[("bash", {"command": "touch made"})]), Said(["No."]), Said(["Later."])]
    with ModelServer(script) as server:
        run = ChatRun(tmp_path, server)
        with run.chat() as screen:
            screen.wait_for("ready")
            screen.type("make it")
            screen.press("Enter")
            screen.wait_for("1 Allow once (y)", "say why")
            screen.type("and yet another thing")
            screen.wait_for("› and yet another thing", "for other answers, send or clear the line")
            assert not (run.project / "made").exists()
            screen.press("Enter")
            screen.wait_for("next  and yet another thing", "say why")
            screen.press("n")
            screen.wait_for("› and yet another thing", "Later.", "ready")
        assert not (run.project / "made").exists()


def test_an_answer_before_the_last_page_is_no_message(tmp_path: Path) -> None:
    command = "touch made\n" + "\n".join(f"echo line {number}" for number in range(30))
    script = [Said(calls=[("bash", {"command": command})]), Said(["Done."])]
    with ModelServer(script) as server:
        run = ChatRun(tmp_path, server)
        with run.chat() as screen:
            screen.wait_for("ready")
            screen.type("make it")
            screen.press("Enter")
            screen.wait_for("1 Show the next page", "say why")
            screen.press("y")
            screen.wait_for("The question has more pages: Enter shows the next one.", "say why")
            assert not (run.project / "made").exists()
            screen.press("Enter")
            screen.wait_for("1 Allow once (y)", "say why")
            screen.press("y")
            screen.wait_for("Done.", "ready")
        assert (run.project / "made").exists()
        assert len(server.requests) == 2


def test_every_option_of_a_question_is_on_a_low_screen(tmp_path: Path) -> None:
    call = {"command": "touch made"}
    with ModelServer([Said(calls=[("bash", call)]), Said(["Done."])]) as server:
        run = ChatRun(tmp_path, server)
        with run.chat(rows=11) as screen:
            screen.wait_for("ready")
            screen.type("make it")
            screen.press("Enter")
            shown = screen.wait_for(
                "1 Allow once (y)", "2 Allow", "3 Allow", "4 Deny (n)", "say why"
            )
            assert "touch made" in shown
            screen.press("y")
            screen.wait_for("Done.", "ready")
        assert (run.project / "made").exists()


@pytest.mark.parametrize("size", [(50, 18), (110, 30)])
def test_a_question_is_whole_on_a_screen_of_another_size(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    write = {"file_path": "two.md", "content": "first\nsecond\n"}
    with ModelServer([Said(calls=[("write_file", write)]), Said(["Written."])]) as server:
        run = ChatRun(tmp_path, server)
        with run.chat(columns=70, rows=24) as screen:
            screen.wait_for("ready")
            screen.type("write it")
            screen.press("Enter")
            screen.wait_for("Allow a new file two.md?", "1 Allow once (y)")
            screen.resize(*size)

            def is_whole(text: str) -> bool:
                shown_again = screen.text(scrollback=True).count("Allow a new file two.md?") == 2
                whole = text[max(text.rfind("Allow a new file two.md?"), 0) :]
                wanted = ("file two.md?", "1 + first", "2 + second", "1 Allow once (y)", "say why")
                return shown_again and all(each in whole for each in wanted)

            screen.wait_until(is_whole, "the whole question")
            screen.press("y")
            screen.wait_for("Written.", "ready")
        assert (run.project / "two.md").exists()


def test_the_reason_of_a_no_goes_to_the_model(tmp_path: Path) -> None:
    script = [Said(calls=[("bash", {"command": "pip install x"})]), Said(["All right."])]
    with ModelServer(script) as server:
        with ChatRun(tmp_path, server).chat(rows=24) as screen:
            screen.wait_for("ready")
            screen.press("C-l")
            screen.type("install it")
            screen.press("Enter")
            screen.wait_for("r deny and say why")
            screen.type("ruse uv instead")
            assert_looks_like(screen.wait_for("because › use uv instead"), "reason")
            screen.press("Enter")
            assert_looks_like(screen.wait_for("All right.", "ready"), "reasoned")
        said = server.requests[1]["messages"][-1]["content"]
        assert said.endswith("denied by the user: use uv instead")


def test_a_command_is_changed_before_it_runs_and_the_model_is_told(tmp_path: Path) -> None:
    command = "echo one\necho two"
    script = [Said(calls=[("bash", {"command": command})]), Said(["I see."])]
    with ModelServer(script) as server:
        run = ChatRun(tmp_path, server)
        with run.chat(rows=24) as screen:
            screen.wait_for("ready")
            screen.press("C-l")
            screen.type("say it")
            screen.press("Enter")
            screen.wait_for("e change the command")
            screen.press("e")
            screen.wait_for("Change the command.", "$ echo one\n  echo two")
            screen.press("Escape")
            screen.wait_for("e change the command")
            screen.press("e")
            screen.wait_for("Change the command.")
            screen.type(" three | tee made")
            assert_looks_like(screen.wait_for("echo two three | tee made"), "edited")
            screen.press("Enter")
            screen.wait_for("changed to: echo one", "I see.", "ready")
        assert (run.project / "made").read_text("utf-8") == "two three\n"
        told = str(server.requests[1]["messages"][-1]["content"])
        assert "The user changed this call before it ran" in told
        assert "three | tee made" in told


@pytest.mark.parametrize("columns", [80, 60])
def test_an_edit_is_asked_about_with_its_difference(tmp_path: Path, columns: int) -> None:
    edit = {"file_path": "cart.py", "old_string": _OLD, "new_string": _NEW}
    script = [Said(["I fix it."], [("edit_file", edit)]), Said(["Fixed."])]
    with ModelServer(script) as server:
        run = ChatRun(tmp_path, server)
        (run.project / "cart.py").write_text(_CART, "utf-8")
        with run.chat(columns=columns, rows=24) as screen:
            screen.wait_for("ready")
            screen.press("C-l")
            screen.type("fix it")
            screen.press("Enter")
            asked = screen.wait_for("Allow this edit of cart.py?", "say why")
            assert_looks_like(asked, f"edit-{columns}")
            colored = screen.text(colors=True)
            assert re.search(r"\x1b\[31m *5 - ", colored)
            assert re.search(r"\x1b\[32m *5 \+ ", colored)
            screen.press("y")
            assert_looks_like(screen.wait_for("Fixed.", "ready"), f"edited-file-{columns}")


def test_a_difference_is_readable_without_colours(tmp_path: Path) -> None:
    write = {"file_path": "new.py", "content": "first\n\tsecond \n"}
    script = [Said(calls=[("write_file", write)]), Said(["Written."])]
    with (
        ModelServer(script) as server,
        ChatRun(tmp_path, server).chat(rows=24, NO_COLOR="1") as screen,
    ):
        screen.wait_for("ready")
        screen.type("write it")
        screen.press("Enter")
        shown = screen.wait_for("Allow a new file new.py?", "say why")
        assert "┃   1 + first\n┃   2 + →   second·\n" in shown
        screen.press("y")
        screen.wait_for("Written.", "ready")
        codes = re.findall(r"\x1b\[([0-9;]*)m", screen.text(colors=True))
        assert not {code for each in codes for code in each.split(";")} - _NO_COLORS


def test_an_edit_that_nobody_was_asked_about_shows_its_difference(tmp_path: Path) -> None:
    edit = {"file_path": "cart.py", "old_string": _OLD, "new_string": _NEW}
    with ModelServer([Said(calls=[("edit_file", edit)]), Said(["Fixed."])]) as server:
        run = ChatRun(tmp_path, server)
        (run.project / "cart.py").write_text(_CART, "utf-8")
        with run.chat("--mode", "edits", "fix", "it", rows=40) as screen:
            assert_looks_like(screen.wait_for("Fixed.", "ready"), "unasked-edit")
            assert re.search(r"\x1b\[32m *5 \+ ", screen.text(colors=True))


def test_the_terminal_calls_the_user_to_a_question(tmp_path: Path) -> None:
    script = [Said(calls=[("bash", {"command": "echo"})]), Said(["Done."])]
    with ModelServer(script) as server:
        run = ChatRun(tmp_path, server)
        with run.chat() as screen:
            screen.wait_for("ready")
            screen.keep_bytes(tmp_path / "bytes")
            screen.type("run it")
            screen.press("Enter")
            screen.wait_for("1 Allow once")
            assert screen.title == "? amplifier: project"
            note = b"]9;amplifier: Allow this command outside of the sandbox?\a"
            assert note in (tmp_path / "bytes").read_bytes()
            screen.press("y")
            screen.wait_for("Done.", "ready")
            screen.wait_until(lambda _: screen.title == "amplifier: project", "title")


def test_the_calls_can_be_switched_off(tmp_path: Path) -> None:
    with ModelServer([Said(calls=[("bash", {"command": "echo"})])]) as server:
        run = ChatRun(tmp_path, server)
        settings = "terminal: { bell: false, title: false, notes: false }\n"
        (run.home / "settings.yaml").write_text(settings, "utf-8")
        with run.chat() as screen:
            screen.wait_for("ready")
            screen.keep_bytes(tmp_path / "bytes")
            screen.type("run it")
            screen.press("Enter")
            screen.wait_for("1 Allow once")
        written = (tmp_path / "bytes").read_bytes()
    assert b"1 Allow once" in written
    assert b"\a" not in written
    assert b"\x1b]" not in written


def test_a_plan_is_accepted_and_carried_out_in_the_chosen_mode(tmp_path: Path) -> None:
    write = ("write_file", {"file_path": "made", "content": "text"})
    script = [Said(calls=[write]), Said(["I will write it."]), Said(calls=[write]), Said(["Done."])]
    with ModelServer(script) as server:
        run = ChatRun(tmp_path, server)
        with run.chat("--mode", "plan", "write", "it") as screen:
            asked = screen.wait_for("I will write it.", "Carry out this plan?", "2 Yes, edit files")
            assert_looks_like(asked, "plan")
            assert not (run.project / "made").exists()
            screen.press("2")
            screen.wait_for("› Carry out the plan.", "Done.", "ready · mode edits")
        assert (run.project / "made").read_text("utf-8") == "text"


def test_a_key_changes_the_mode_and_what_is_granted_can_be_revoked(tmp_path: Path) -> None:
    opened = {"command": "echo > .git/x", "write": [".git"], "reason": "to try it"}
    script = [Said(calls=[("bash", opened)]), Said(["First."])]
    with ModelServer(script) as server:
        run = ChatRun(tmp_path, server)
        (run.project / ".git").mkdir(parents=True)
        with run.chat() as screen:
            screen.wait_for("ready · mode ask")
            for mode in ("edits", "plan", "auto"):
                screen.press("BTab")
                screen.wait_for(f"ready · mode {mode}")
            screen.type("try it")
            screen.press("Enter")
            screen.wait_for("Asked because it needs writing to", "2 Allow writing to")
            # In this mode, it takes the answer that lasts for the session.
            screen.press("Enter")
            screen.wait_for("First.", "ready")
            screen.type("/grants")
            screen.press("Enter")
            screen.wait_for("1  allow writing to", "this session")
            screen.type("/grants revoke 2")
            screen.press("Enter")
            screen.wait_for("There is no number 2;")
            screen.type("/grants revoke 1")
            screen.press("Enter")
            screen.wait_for("Revoked: writing to")
            screen.type("/mode plan")
            screen.press("Enter")
            screen.wait_for("ready · mode plan")
            screen.press("C-d")
            screen.wait_for_end()
        with run.command("continue") as screen:
            screen.wait_for("ready · mode plan")


def test_escape_in_mid_stream_keeps_what_was_said_and_holds_the_queue(tmp_path: Path) -> None:
    gate = Event()
    half = ["The first ", "paragraph.\n\n", "And half ", "of the ", "second ", gate, "is unsaid."]
    with ModelServer([Said([*half]), Said(["Gladly."])]) as server:
        with ChatRun(tmp_path, server).chat() as screen:
            screen.wait_for("ready")
            screen.type("tell me")
            screen.press("Enter")
            screen.wait_for("And half of the second")
            screen.type("then go on")
            screen.press("Enter")
            screen.wait_for("next  then go on")
            screen.press("Escape")
            assert_looks_like(screen.wait_for("Stopped.", "held"), "stopped")
            assert len(server.requests) == 1
            screen.press("Escape")
            assert "› then go on" in screen.wait_for("in the input line again")
            screen.press("Enter")
            screen.wait_for("Gladly.", "ready")
        said = [each["content"] for each in server.requests[1]["messages"]]
        assert said[1:] == [
            "tell me",
            "The first paragraph.\n\nAnd half of the second ",
            "then go on",
        ]
        gate.set()


def test_what_is_said_meanwhile_is_sent_in_order_and_steering_reaches_the_turn(
    tmp_path: Path,
) -> None:
    gate = Event()
    script = [Said(["One. ", gate]), Said(["In French: un."]), Said(["Two."]), Said(["Three."])]
    with ModelServer(script) as server, ChatRun(tmp_path, server).chat() as screen:
        screen.wait_for("ready")
        for text in ("count", "again", "and again"):
            screen.type(text)
            screen.press("Enter")
        screen.wait_for("One.", "2 queued")
        screen.type("/steer in French")
        screen.press("Enter")
        screen.wait_for("reads it with its next step")
        gate.set()
        shown = conversation(screen.wait_for("Three.", "ready"))
        said = [line for line in shown if line[0] in "›»"]
        assert said == ["› count", "» in French", "› again", "› and again"]
        assert shown.index("One.") < shown.index("» in French") < shown.index("In French: un.")


@pytest.mark.parametrize("moment", ["streaming", "asking", "running"])
def test_nothing_is_missing_after_a_kill(tmp_path: Path, moment: str) -> None:
    gate = Event()
    working = [("bash", {"command": "echo begun; sleep 30"})]
    first = {
        "streaming": Said(["A whole paragraph.\n\n", "- one\n", "- and tw", "o ", gate]),
        "asking": Said(["I would like to:"], working),
        "running": Said(["I do it:"], working),
    }[moment]
    awaited = {"streaming": "and two", "asking": "4 Deny", "running": "  begun\n"}[moment]
    with ModelServer([Said(["Hello."]), first, Said(["I go on."])]) as server:
        run = ChatRun(tmp_path, server)
        with run.chat() as screen:
            screen.wait_for("ready")
            screen.type("hello")
            screen.press("Enter")
            screen.wait_for("Hello.", "ready")
            screen.type("do it")
            screen.press("Enter")
            if moment == "running":
                screen.wait_for("1 Allow once")
                screen.press("1")
            before = conversation(screen.wait_for(awaited) and screen.text(scrollback=True))
            os.kill(screen.pid, KILL)
            screen.wait_for_end()
        gate.set()
        with run.chat("--resume", "last") as screen:
            screen.wait_for("ready")
            after = conversation(screen.text(scrollback=True))
            assert [
                line for line in map(_settled, before) if line not in map(_settled, after)
            ] == []
            assert_looks_like("\n".join(after), f"resumed-{moment}")
            screen.type("go on")
            screen.press("Enter")
            screen.wait_for("I go on.", "ready")


def _settled(line: str) -> str:
    """A line without the mark, the time and the options of something that was under way."""
    if re.match(r"[┗ ] +[1-4] (Allow|Deny)", line) or "r deny and say why" in line:
        return "┗ no answer"
    bare = re.sub(r"^[⠋?■] ", "", normalised(line).rstrip("\n"))
    return re.sub(r"  (no result · )?(Ns · )?#", "  #", bare)


def test_the_second_process_is_offered_three_ways(tmp_path: Path) -> None:
    script = [Said(["Hello."]), Said(["I am the second."])]
    with ModelServer(script) as server:
        run = ChatRun(tmp_path, server)
        with run.chat() as first:
            first.wait_for("ready")
            first.type("hello")
            first.press("Enter")
            first.wait_for("Hello.", "ready")
            with run.chat("--resume", "last") as second:
                second.wait_for("watch", "take-over", "fork", "What now", "[watch]:")
                second.type("take-over")
                second.press("Enter")
                assert "Hello." in second.wait_for("ready")
                first.type("me again")
                first.press("Enter")
                first.wait_for("cannot be written")
                second.type("and you?")
                second.press("Enter")
                second.wait_for("I am the second.", "ready")
            assert len(server.requests) == 2


def test_a_narrow_terminal_shows_everything_without_colours_if_so_wished(tmp_path: Path) -> None:
    table = "| a | b |\n|-|-|\n| 1 | 漢 |"
    text = f"漢字かな混じり文は幅が二つ分あります。 A line that is too long for it.\n\n{table}"
    calls = [("bash", {"command": "echo a rather long line of words"})]
    with (
        ModelServer([Said([text], calls), Said(["Done."])]) as server,
        ChatRun(tmp_path, server).chat(columns=40, NO_COLOR="1") as screen,
    ):
        screen.wait_for("ready")
        screen.type("hello")
        screen.press("Enter")
        screen.wait_for("1 Allow once")
        screen.press("1")
        assert_looks_like(screen.wait_for("Done.", "ready"), "narrow")
        codes = re.findall(r"\x1b\[([0-9;]*)m", screen.text(colors=True))
        is_color = {code for each in codes for code in each.split(";")} - _NO_COLORS
        assert not is_color


def test_a_terminal_that_can_only_print_has_a_chat_too(tmp_path: Path) -> None:
    script = [Said(["**Hello.**"]), Said(calls=[("bash", {"command": "echo"})]), Said(["Done."])]
    with (
        ModelServer(script) as server,
        ChatRun(tmp_path, server).chat(TERM="dumb") as screen,
    ):
        screen.wait_until(lambda text: text.endswith(">"), "prompt")
        screen.type("hello")
        screen.press("Enter")
        screen.wait_until(lambda text: "\nHello." in text, "answer")
        screen.type("run it")
        screen.press("Enter")
        screen.wait_until(lambda text: "1  Allow once" in text and text.endswith("\n>"), "question")
        screen.type("y")
        screen.press("Enter")
        screen.wait_for("Done.")
        screen.press("C-d")
        screen.wait_for("amplifier continue ")
        assert "\x1b" not in screen.text(colors=True)


def test_where_a_line_is_the_answer_it_can_have_a_reason_or_another_command(
    tmp_path: Path,
) -> None:
    calls = [Said(calls=[("bash", {"command": f"touch {name}"})]) for name in ("one", "two")]
    with ModelServer([*calls, Said(["Done."])]) as server:
        run = ChatRun(tmp_path, server)
        with run.chat("make", "them", TERM="dumb") as screen:

            def is_asked(text: str) -> bool:
                return "e COMMAND: run that instead" in text and text.endswith("\n>")

            screen.wait_until(is_asked, "question")
            screen.type("n not this one")
            screen.press("Enter")
            screen.wait_until(lambda text: "$ touch two" in text and is_asked(text), "question")
            screen.type("e touch three")
            screen.press("Enter")
            screen.wait_for("Done.")
        assert [each.name for each in run.project.iterdir()] == ["three"]
        assert "denied by the user: not this one" in str(server.requests[1]["messages"][-1])
        assert "The user changed this call" in str(server.requests[2]["messages"][-1])


def test_commands_complete_and_answer(tmp_path: Path) -> None:
    with (
        ModelServer([Said(["Hello."])]) as server,
        ChatRun(tmp_path, server).chat() as screen,
    ):
        screen.wait_for("ready")
        screen.type("hello")
        screen.press("M-Enter")
        screen.type("twice")
        screen.press("Enter")
        screen.wait_for("› hello\n  twice", "Hello.", "ready")
        screen.type("/")
        assert_looks_like(screen.wait_for("/help", "/quit"), "menu")
        screen.press("Escape")
        screen.wait_for("› /", absent="/quit")
        screen.type("cost")
        screen.press("Enter")
        screen.wait_for("model calls", "$0.0011")
        screen.type("/export talk.md")
        screen.press("Enter")
        screen.wait_for("Written to")
        screen.type("/fork")
        screen.press("Enter")
        screen.wait_for("A copy continues here", "ready")
        screen.type("/quit")
        screen.press("Enter")
        screen.wait_for_end()
        screen.wait_for("amplifier continue ")
