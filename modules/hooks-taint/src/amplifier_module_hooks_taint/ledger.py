"""The ledger of a tree of sessions: what was read, from whom, and what the person said."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

from pydantic import ConfigDict, TypeAdapter, ValidationError

from amplifier_module_hooks_taint.config import TaintConfig

_Kept = TypeVar("_Kept", dict[str, int], list[list[str]])
_DAMAGED = "what was kept of the texts that were read is damaged"


class Evidence(NamedTuple):
    """An argument that derives from what was read: which, from where, and by which words."""

    argument: str
    origin: str
    snippet: str


class Ledger:
    """Fingerprints of what tools returned; kept in `state`, which outlives the process."""

    def __init__(self, config: TaintConfig, state: dict[str, Any]) -> None:
        self.sessions: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._config = config
        self._block = config.shared_characters // 2
        self.is_new = not state
        self._lock = threading.Lock()
        self._state = state
        state.setdefault("blind", None)
        try:
            self._prints = _checked(dict[str, int], state.get("prints", {}))
            self._said = _checked(dict[str, int], state.get("said", {}))
            self._origins = _checked(list[list[str]], state.get("origins", []))
        except ValidationError:
            self._prints = {}
            self._said = {}
            self._origins = []
            self.go_blind(_DAMAGED)
        # Validation makes copies; what is added has to be in the state.
        state.update(prints=self._prints, said=self._said, origins=self._origins)

    @property
    def blind(self) -> str | None:
        """Why nothing can be compared any more, if so."""
        return self._state["blind"]

    def go_blind(self, why: str) -> None:
        """Take everything for derived from what was read, from now on."""
        self._state["blind"] = why

    def read(self, value: Any, tool: str, call_id: str, arguments: Any = None) -> None:
        """Take note of what a tool returned; what it only repeats of its input is not its own.

        Blocks, and may be called from any thread.
        """
        from amplifier_module_hooks_taint.fingerprints import (  # noqa: PLC0415 - by origin, nobody compares
            kept_prints,
            texts_in,
        )

        text = "\n".join(texts_in(value))
        if not text:
            return None
        if len(text) > self._config.max_characters:
            return self.go_blind(f"`{tool}` returned {len(text)} characters, too many to compare")
        repeated = {each.digest for given in texts_in(arguments) for each in self._all(given)}
        with self._lock:
            origin = len(self._origins)
            self._origins.append([tool, call_id])
        for each in kept_prints(text, self._block):
            if each.digest not in repeated:
                self._prints.setdefault(each.digest, origin)
        if len(self._prints) > self._config.max_fingerprints:
            self.go_blind("more was read than can be compared")
        return None

    def note(self, tool: str, call_id: str) -> None:
        """Take note of where text came from, whatever it says."""
        with self._lock:
            self._origins.append([tool, call_id])

    @property
    def last_origin(self) -> str | None:
        """Where the last text came from that was noted, None when there was none."""
        if not self._origins:
            return None
        tool, call_id = self._origins[-1]
        return f"the output of `{tool}` (call {call_id})"

    def hear(self, prompt: str) -> None:
        """Take note of what the person said: whoever repeats it acts on the person's word."""
        if len(prompt) <= self._config.max_characters:
            self._said.update((each.digest, 1) for each in self._all(prompt))

    def evidence(self, arguments: Any, exempt: list[str]) -> Evidence | None:
        """Return the first argument that holds what was read and the person did not say."""
        from amplifier_module_hooks_taint.fingerprints import passage, texts_in  # noqa: PLC0415 - as above

        is_named = isinstance(arguments, dict)
        if is_named:
            named = cast("dict[str, Any]", arguments)
        else:
            named = {"": arguments}
        for name, value in named.items():
            if name in exempt or "*" in exempt:
                continue
            for text in (name, *texts_in(value)):
                if len(text) > self._config.max_characters:
                    return Evidence(name, "an unknown origin", f"{len(text)} characters")
                for each in self._all(text):
                    if each.digest in self._prints and each.digest not in self._said:
                        tool, call_id = self._origins[self._prints[each.digest]]
                        origin = f"the output of `{tool}` (call {call_id})"
                        return Evidence(name, origin, passage(text, each.words))
        return None

    def _all(self, text: str) -> Any:
        from amplifier_module_hooks_taint.fingerprints import all_prints  # noqa: PLC0415 - as above

        return all_prints(text, self._block)


def _checked(kind: type[_Kept], value: Any) -> _Kept:
    """Return what was kept, if it is of that kind; a new session has nothing to check."""
    if value == kind():
        return kind()
    return TypeAdapter(kind, config=ConfigDict(strict=True)).validate_python(value)
