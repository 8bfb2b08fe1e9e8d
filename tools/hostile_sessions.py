"""Made-up sessions full of bytes that are not text: prompts, answers, calls and results."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, cast

_ATOMS = (
    "\x00", "\ud83d", "\ude00", "\ud800", "\udbff", "\udc00", "\udfff", "\udce9", "\ufffd",
    "\ufffe", "\u2028", "\u202e", "\x1b[2J", "\x07", "\x7f", "\x85", "\ufeff", "\U0001f600",
    "\U0010ffff", "\u00e9", "e\u0301", "\\ud800", "\\u0000", "\\", '"', "'", "{", "]", "\r\n",
    "\n", "\t", "a", "word ", "</tool>", "%s", "${HOME}", "$blob", "\u0130",
)  # fmt: skip
_DEEPEST = 400
_TOOL = "speak"


@dataclass(frozen=True)
class Session:
    """One session of two turns. `answers` and `results` are what the model and the tool say.

    `killed_at` is the place where its process is killed in the first turn, if it is.
    """

    number: int
    prompts: tuple[str, str]
    answers: list[dict[str, Any]]
    results: list[dict[str, Any]]
    loop: str
    memory: str
    killed_at: str | None

    def config(self, folder: str) -> dict[str, Any]:
        """Return the configuration of `provider-bytes`; all of it is plain ASCII."""
        script = {"answers": self.answers, "results": self.results}
        return {
            "script": json.dumps(script),
            "killed_at": self.killed_at,
            "killed": f"{folder}/killed-{self.number}",
        }

    def plan(self, folder: str) -> dict[str, Any]:
        """Return the mount plan."""
        return {
            "session": {"orchestrator": self.loop, "context": self.memory},
            "providers": [{"module": "provider-bytes", "config": self.config(folder)}],
        }


class Maker:
    """Makes sessions; the same seed and number give the same session."""

    def __init__(self, seed: int, *, memories: tuple[str, ...], kills: float) -> None:
        self._seed = seed
        self._memories = memories
        self._kills = kills

    def session(self, number: int) -> Session:
        """Return the session of this number."""
        chance = random.Random(f"{self._seed}:{number}")
        answers: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for _ in range(2):
            for _ in range(chance.choice((0, 1, 1, 2))):
                answers.append(_calling(chance, len(answers), len(results)))
                results.append(_result(chance))
            answers.append({"pieces": _pieces(chance), "calls": []})
        places = [f"model {at}" for at in range(2)] + ["tool 0", "tool 0 after"]
        is_killed = chance.random() < self._kills
        return Session(
            number=number,
            prompts=(text(chance) + "?", text(chance) + "!"),
            answers=answers,
            results=results,
            loop=chance.choice(("loop-basic", "loop-streaming")),
            memory=chance.choice(self._memories),
            killed_at=chance.choice(places) if is_killed else None,
        )


def text(chance: random.Random) -> str:
    """Return a text of some characters, most of them trouble."""
    return "".join(chance.choice(_ATOMS) for _ in range(chance.randrange(1, 12)))


def check_texts(value: Any) -> None:
    """Raise when a text in data cannot be written by every store."""
    if isinstance(value, str):
        value.encode()
        if "\x00" in value:
            raise ValueError("there is a NUL in a text")
    elif isinstance(value, dict):
        for key, each in cast("dict[Any, Any]", value).items():
            check_texts(key)
            check_texts(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            check_texts(each)


def _pieces(chance: random.Random) -> list[str]:
    """Return the pieces of a streamed text; an emoji may be cut in two."""
    return [text(chance) for _ in range(chance.randrange(1, 5))]


def _calling(chance: random.Random, at: int, result: int) -> dict[str, Any]:
    name = _TOOL if chance.random() < 0.9 else f"{_TOOL}{text(chance)}"
    arguments = {"result": result, text(chance): _data(chance)}
    call = {"id": f"{at}-{text(chance)}", "name": name, "arguments": arguments}
    return {"pieces": _pieces(chance) if chance.random() < 0.5 else [], "calls": [call]}


def _result(chance: random.Random) -> dict[str, Any]:
    kind = chance.choice(("text", "data", "plain", "content", "error", "raised"))
    if kind in ("data", "plain"):
        return {"kind": kind, "value": _data(chance)}
    return {"kind": kind, "value": text(chance)}


def _data(chance: random.Random, depth: int = 0) -> Any:
    if depth == 0 and chance.random() < 0.05:
        return _deep(chance)
    kind = chance.random()
    if depth > 3 or kind < 0.5:
        return chance.choice((text(chance), text(chance), 1, None, True, 1.5, 2**70))
    if kind < 0.75:
        return {text(chance): _data(chance, depth + 1) for _ in range(chance.randrange(3))}
    return [_data(chance, depth + 1) for _ in range(chance.randrange(3))]


def _deep(chance: random.Random) -> Any:
    value: Any = text(chance)
    for _ in range(chance.randrange(50, _DEEPEST)):
        value = [value] if chance.random() < 0.5 else {text(chance): value}
    return value
