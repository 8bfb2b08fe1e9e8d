"""A question shows all of what it asks, and only what is typed after it was drawn answers it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from amplifier_kit.questions import Preview
from amplifier_module_hooks_approval.rendering import CallView, call_lines
from amplifier_module_hooks_approval.rules import Call
from attacks.hostile import EVIL, acting
from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said
from tmux_screen import TmuxScreen

INVISIBLE = [
    *("\u3164", "\u2800", "\u034f", "\ufe00", "\U000e0100", "\uffa0", "\u115f", "\u1160"),
    *("\u17b4", "\u180b", "\u0336"),
]


def shown(command: str) -> str:
    """What a user is shown of a call."""
    preview = Preview("this command", ("command",), text=command, editable="command")
    call = Call("s", "c", "bash", {"command": command}, "", "")
    return "\n".join(call_lines(call, CallView(preview)))


@contextmanager
def terminal(machine: Machine, *arguments: str, rows: int = 40) -> Generator[TmuxScreen]:
    """The command at a real terminal."""
    command = [sys.executable, "-m", "amplifier_cli", *arguments]
    environment = {**machine.environment, "TERM": "tmux-256color"}
    with TmuxScreen(
        command, folder=machine.project, environment=environment, columns=100, rows=rows
    ) as screen:
        yield screen


def unwrapped(text: str) -> str:
    """A question without the marks of rows that continue a line."""
    return text.replace("\n┃ ↳ ", "").replace("\n┃ ", "")


def is_asked(text: str) -> bool:
    """Whether the terminal waits for an answer."""
    return text.rstrip().endswith("\n>")


def is_over(text: str) -> bool:
    """Whether the model has said its last word."""
    return "\ndone" in text


def is_asked_or_over(text: str) -> bool:
    """Whether the terminal waits, or there is nothing to wait for."""
    return is_asked(text) or is_over(text)


def answer(screen: TmuxScreen, said: str) -> str:
    """Type an answer once the terminal waits for it, and return the question."""
    question = screen.wait_until(is_asked, "question")
    screen.type(said)
    screen.press("Enter")
    screen.wait_until(lambda text: not is_asked(text), "reaction")
    return question


@pytest.fixture
def asking(machine: Machine) -> Machine:
    """A machine whose model has a window that is large enough for long calls."""
    config = {"base_url": "${OPENAI_BASE_URL}"}
    machine.user_settings(
        {"providers": [{"module": "provider-chat-completions", "config": config}]}
    )
    return machine


def test_piped_input_answers_no_question(asking: Machine) -> None:
    with ModelServer([Said(calls=[("bash", {"command": "touch made"})]), Said(["done"])]) as server:
        asking.use(server)
        asking.amplifier("run", "hi", stdin="1\n1\ny\n")

    assert not (asking.project / "made").exists()


@pytest.mark.attack("review M2")
@pytest.mark.parametrize("character", INVISIBLE, ids=lambda each: f"U+{ord(each):04X}")
def test_no_invisible_character_hides_in_a_question(character: str) -> None:
    text = shown(f"ls x{character}y")

    assert character not in text
    assert f"{ord(character):04x}" in text


@pytest.mark.attack("review M2")
def test_no_part_of_a_call_is_left_out_of_its_question() -> None:
    command = "pytest -q # " + "x" * 1_500 + "\n./evil\n# " + "y" * 600

    assert "./evil" in shown(command)


@pytest.mark.slow
@pytest.mark.attack("review M2")
def test_a_long_call_cannot_be_allowed_before_all_of_it_was_on_the_screen(asking: Machine) -> None:
    command = "touch made # " + "x" * 3_000 + "\ntouch evil\n# " + "y" * 3_000
    with ModelServer([Said(calls=[("bash", {"command": command})]), Said(["done"])]) as server:
        asking.use(server)
        with terminal(asking, "run", "hi") as screen:
            first = screen.wait_until(is_asked, "question")
            assert "Allow once" not in first
            pages = [answer(screen, "1")]
            while "Allow once" not in pages[-1]:
                pages.append(answer(screen, "1"))
            screen.wait_for("done")

    assert "touch evil" in unwrapped("".join(pages))
    assert "Allow once" in pages[-1]
    assert (asking.project / "made").exists()


@pytest.mark.slow
@pytest.mark.attack("review M2")
def test_one_yes_is_never_for_more_calls_than_can_be_read(asking: Machine) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("bash", {"command": f"touch file{number:02}"}) for number in range(24)
    ]
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        asking.use(server)
        with terminal(asking, "run", "hi") as screen:
            answer(screen, "Allow once")
            while not is_over(screen.wait_until(is_asked_or_over, "question or end")):
                answer(screen, "Deny")

    assert len(list(asking.project.glob("file*"))) == 10


@pytest.mark.slow
@pytest.mark.attack("review M2")
def test_a_hostile_call_is_asked_about_with_nothing_that_acts_on_the_terminal(
    asking: Machine,
) -> None:
    with ModelServer([Said(calls=[("bash", {"command": EVIL})]), Said(["done"])]) as server:
        asking.use(server)
        with terminal(asking, "run", "hi") as screen:
            question = answer(screen, "Deny")

    whole = unwrapped(question)
    assert acting(question.replace("\n", "")) == []
    assert "\\u202egnp.exe" in whole
    assert "\\U000e0100" in whole


@pytest.mark.slow
@pytest.mark.attack("review M3")
def test_what_was_typed_before_the_question_is_not_its_answer(asking: Machine) -> None:
    gate = Event()
    script = [Said(["I look. ", gate], [("bash", {"command": "touch made"})]), Said(["done"])]
    with ModelServer(script) as server:
        asking.use(server)
        with terminal(asking, "run", "hi") as screen:
            screen.wait_for("I look.")
            screen.type("1")
            screen.press("Enter")
            screen.type("1")
            screen.wait_for("1\n1")
            gate.set()
            screen.wait_until(is_asked_or_over, "question or end")
            # Only the end of a line whose beginning was typed before.
            screen.press("Enter")
            seen = screen.wait_until(lambda text: "type a number" in text or is_over(text), "end")
            if not is_over(seen):
                answer(screen, "Deny")
                screen.wait_until(is_over, "end")

    assert not (asking.project / "made").exists()


@pytest.mark.attack("review M3")
def test_a_yes_typed_before_the_question_trusts_nothing(machine: Machine) -> None:
    machine.project_settings({"bundle": {"active": "default"}})
    with terminal(machine, "trust") as screen:
        screen.type("y")
        screen.press("Enter")
        screen.wait_for("[y/N]")
        screen.press("Enter")
        screen.wait_for_end()

    assert "not trusted" in machine.amplifier("trust", "show").stdout


@pytest.mark.slow
def test_keys_pressed_while_a_question_appears_in_the_chat_do_not_answer_it(
    asking: Machine,
) -> None:
    gate = Event()
    script = [Said(["I look. ", gate], [("bash", {"command": "touch made"})]), Said(["done"])]
    with ModelServer(script) as server:
        asking.use(server)
        with terminal(asking, "chat") as screen:
            screen.wait_for("ready")
            screen.type("hi")
            screen.press("Enter")
            screen.wait_for("I look.")
            gate.set()
            for _ in range(200):
                screen.press("1")
                if "Allow this command" in screen.text():
                    break
            screen.wait_for("for other answers, send or clear the line")
            assert not (asking.project / "made").exists()
