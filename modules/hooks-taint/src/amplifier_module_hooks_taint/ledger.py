"""The ledger of a tree of sessions: what was read, from which tool, and what the user said."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

from pydantic import ConfigDict, TypeAdapter, ValidationError

from amplifier_module_hooks_taint.config import TaintConfig

_Kept = TypeVar("_Kept", dict[str, int], list[list[str]])
_DAMAGED = "what was kept of the texts that were read is damaged"


class Evidence(NamedTuple):
    """An argument that derives from what was read: its name, the origin, and the words."""

    argument: str
    origin: str
    snippet: str


class Ledger:
    """Fingerprints of what tools returned, stored in `state`, which outlives the process."""

    def __init__(self, config: TaintConfig, state: dict[str, Any]) -> None:
        self.sessions: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._config = config
        # Half, because a shared run of this length has a whole block that was kept.
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
            # Starting empty would trust everything that was read before.
            self._prints = {}
            self._said = {}
            self._origins = []
            self.go_blind(_DAMAGED)
        # Validation returns copies, and later additions have to be in the state.
        state.update(prints=self._prints, said=self._said, origins=self._origins)

    @property
    def blind(self) -> str | None:
        """Why nothing can be compared any more; None if it can."""
        return self._state["blind"]

    def go_blind(self, why: str) -> None:
        """Treat everything as derived from what was read, from now on."""
        self._state["blind"] = why

    def read(self, value: Any, tool: str, call_id: str, arguments: Any = None) -> None:
        """Note what a tool returned, except what it only repeats of its input.

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
        # Otherwise the model's own words, echoed by a tool, would count as the tool's.
        repeated = {each.digest for given in texts_in(arguments) for each in self._all(given)}
        with self._lock:
            origin = len(self._origins)
            self._origins.append([tool, call_id])
        found = {each.digest for each in kept_prints(text, self._block)} - repeated
        with self._lock:
            # A new dictionary, because the event loop's thread may be copying the state now.
            self._prints = {**dict.fromkeys(found, origin), **self._prints}
            self._state["prints"] = self._prints
            if len(self._prints) > self._config.max_fingerprints:
                self.go_blind("more was read than can be compared")
        return None

    def note(self, tool: str, call_id: str, site: str = "") -> None:
        """Note the origin of a text, whatever its content; `site` is all that it can come from."""
        with self._lock:
            self._origins.append([tool, call_id, site])

    def last_origin(self, besides: str = "") -> str | None:
        """Return the origin of the last text that is not from the site `besides`, or None."""
        for tool, call_id, *site in reversed(self._origins):
            if not besides or site != [besides]:
                return f"the output of `{tool}` (call {call_id})"
        return None

    def hear(self, prompt: str) -> None:
        """Note what the user said: a call that repeats it acts on the user's word."""
        if len(prompt) <= self._config.max_characters:
            self._said.update((each.digest, 1) for each in self._all(prompt))

    def evidence(self, arguments: Any, exempt: list[str]) -> Evidence | None:
        """Return the first argument with text that was read and that the user did not say."""
        from amplifier_module_hooks_taint.fingerprints import passage, texts_in  # noqa: PLC0415 - as above

        is_named = isinstance(arguments, dict)
        if is_named:
            named = cast("dict[str, Any]", arguments)
        else:
            named = {"": arguments}
        for name, value in named.items():
            if name in exempt or "*" in exempt:
                continue
            # The name of an argument comes from the model as well.
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
    """Return a stored value if it has this type; a new session has nothing to check."""
    if value == kind():
        return kind()
    return TypeAdapter(kind, config=ConfigDict(strict=True)).validate_python(value)
