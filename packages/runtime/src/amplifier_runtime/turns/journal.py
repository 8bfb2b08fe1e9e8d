"""The journal of one run: the keys of its calls, and the results that earlier runs stored."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter, defaultdict, deque
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from amplifier_core.correlation import claim_tool_call, current_tool_call
from amplifier_core.message_models import ChatResponse
from amplifier_core.models import ToolResult
from amplifier_journal.plain import plain
from amplifier_kit.valid_text import valid_text

__all__ = [
    "Journal",
    "ModelCall",
    "asking_call_id",
    "call_digest",
    "inside",
    "is_repeatable",
    "kept_model",
    "latest_model_call",
    "scope",
]

logger = logging.getLogger(__name__)

_CLAIMED = "runtime"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# The key of the call that the running code is inside of, as a prefix for calls made there.
_scope: ContextVar[str] = ContextVar("amplifier_durable_scope", default="")
_is_unsafe: ContextVar[bool] = ContextVar("amplifier_durable_unsafe", default=False)
_model_call: ContextVar[ModelCall | None] = ContextVar("amplifier_durable_model", default=None)


def scope() -> str:
    """Return the key of the call that the running code is inside of, or an empty text."""
    return _scope.get()


def is_repeatable() -> bool:
    """Whether the call that the running code is inside of may be run again from its start."""
    return not _is_unsafe.get()


@contextmanager
def inside(key: str, *, is_unsafe: bool = False) -> Generator[None]:
    """Mark code as being inside the call of `key`, which may be an unsafe one."""
    before = _scope.get()
    was_unsafe = _is_unsafe.get()
    _scope.set(key)
    # Inherited: a safe call inside of an unsafe one can only be repeated together with it.
    _is_unsafe.set(is_unsafe or was_unsafe)
    try:
        yield
    finally:
        _scope.set(before)
        _is_unsafe.set(was_unsafe)


def asking_call_id() -> str:
    """Return the id of the tool call whose hooks run here; empty once the tool itself runs.

    Questions of the tool are stored under the key of its call, `scope()`, which contains the id.
    """
    call = current_tool_call()
    if call is None or _CLAIMED in call.claimed_by:
        return ""
    return valid_text(call.tool_call_id)


def latest_model_call() -> ModelCall | None:
    """Return the latest model call of this task, if any."""
    return _model_call.get()


def kept_model(model: ChatResponse | ToolResult) -> Any:
    """Return a model as the journal stores it: JSON data with all fields.

    Fields that are None are kept: a stored result reads like the original, and journals of earlier
    versions have them.
    """
    try:
        return model.model_dump(mode="json")
    except Exception:
        # It may contain objects that pydantic cannot serialize; `plain` writes them as text.
        logger.debug("model not dumped type=%s", type(model).__name__, exc_info=True)
        return plain(model)


def call_digest(*parts: Any) -> str:
    """Return a short digest of a call's arguments, the same in every run."""
    # The repr of an object without data contains its address, which differs in every process.
    text = json.dumps(plain(parts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(_ADDRESS.sub("", text).encode()).hexdigest()[:24]


class ModelCall(NamedTuple):
    """One model call of this run: its journal `key`, and `kept`, the result of an earlier run.

    `is_divergent` means that an earlier run made a different request at this place.
    """

    key: str
    facts: dict[str, Any]
    kept: dict[str, Any] | None
    is_divergent: bool


class Journal:
    """The entries of earlier runs of a turn, and the places of this run's calls among them.

    A model call is found by its request, then by its number; a tool call by the id that the model
    gave it and by its input. The order of parallel calls does not matter.
    """

    def __init__(self, entries: dict[str, Any], epoch: int) -> None:
        self._entries = entries
        self._epoch = epoch
        self._numbers: Counter[str] = Counter()
        self._occurrences: Counter[str] = Counter()
        self._asked: defaultdict[tuple[str, str], deque[dict[str, Any]]] = defaultdict(deque)
        self._unused: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        turned_at = _divergences(entries)
        calls = [each for key, each in entries.items() if key.startswith("llm:")]
        for call in sorted(calls, key=lambda each: (each["n"], each["epoch"])):
            place = call["scope"]
            self._asked[place, call["digest"]].append(call)
            # Answers of an abandoned path are still used for equal requests, but a request that
            # is missing from that path is not a divergence.
            if call["epoch"] >= turned_at.get(place, {}).get(call["n"], 0):
                self._unused[place, call["n"]].append(call["digest"])

    def model_call(self, digest: str) -> ModelCall:
        """Return the next model call, with its stored result if there is one."""
        place = scope()
        self._numbers[place] += 1
        number = self._numbers[place]
        facts = {"scope": place, "n": number, "digest": digest, "epoch": self._epoch}
        key = f"llm:{place}{number}:{digest}"
        kept = self._asked[place, digest]
        if kept:
            call = kept.popleft()
            unused = self._unused[place, call["n"]]
            if digest in unused:
                unused.remove(digest)
            made = ModelCall(key, facts, call["outcome"], is_divergent=False)
        else:
            made = ModelCall(key, facts, None, is_divergent=bool(self._unused[place, number]))
        _model_call.set(made)
        return made

    def tool_key(self, name: str, given: Any) -> str:
        """Return the key of the next call of a tool."""
        # The id comes from the model and becomes part of a key in the database.
        call_id = valid_text(claim_tool_call(name, by=_CLAIMED) or "")
        key = f"tool:{scope()}{call_id}:{call_digest(name, given)}"
        self._occurrences[key] += 1
        return f"{key}:{self._occurrences[key]}"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return what an earlier run stored under `key`, or None."""
        return self._entries.get(key)

    @property
    def model_calls(self) -> int:
        """How many model calls this run has made so far, without those inside other calls."""
        return self._numbers[""]

    def starting_with(self, prefix: str) -> dict[str, Any]:
        """Return the entries of earlier runs whose keys begin with `prefix`."""
        return {key: each for key, each in self._entries.items() if key.startswith(prefix)}


def _divergences(entries: dict[str, Any]) -> dict[str, dict[int, int]]:
    """Return the first epoch whose calls are of the current path, by scope and call number."""
    turns: dict[str, dict[int, int]] = {}
    for key, turn in entries.items():
        if not key.startswith("diverged:"):
            continue
        latest = max((each["n"] for each in entries.values() if _is_call_in(each, turn)), default=0)
        place = turns.setdefault(turn["scope"], {})
        for number in range(turn["n"], latest + 1):
            place[number] = max(place.get(number, 0), turn["epoch"])
    return turns


def _is_call_in(entry: Any, turn: dict[str, Any]) -> bool:
    return "digest" in entry and entry.get("scope") == turn["scope"]
