"""A handler for every event of a session, with the known secrets kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, cast

from amplifier_core import events
from amplifier_kit.secrets.known import known_secrets
from amplifier_kit.secrets.scrubber import Scrubber


class Watch:
    """One handler on every event that the kernel names or a module contributes."""

    def __init__(
        self,
        coordinator: Any,
        handler: Callable[[str, Any], Any],
        scrubbers: Iterable[Scrubber],
        *,
        name: str,
        priority: int,
        on_error: Literal["continue", "deny"] = "continue",
        timeout: float | None = None,
        is_wanted: Callable[[str], bool] | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._handler = handler
        self._scrubbers = tuple(scrubbers)
        self._registration: dict[str, Any] = {
            "name": name,
            "priority": priority,
            "on_error": on_error,
            "timeout": timeout,
        }
        self._is_wanted = is_wanted
        self._undo: dict[str, Callable[[], None]] = {}
        self._stopped = False

    async def refresh(self, more: Iterable[str] = ()) -> None:
        """Reload the known secrets, and subscribe to `more` and to newly contributed events."""
        self._learn()
        announced = await self._coordinator.collect_contributions("observability.events")
        for event in (*events.ALL_EVENTS, *more, *_names(announced)):
            is_new = event not in self._undo and not self._stopped
            if is_new and (self._is_wanted is None or self._is_wanted(event)):
                self._undo[event] = self._coordinator.hooks.register(
                    event, self._handler, **self._registration
                )

    async def keep_up(self, event: str) -> None:
        """Reload after an event that may have changed secrets or modules; call it with each."""
        if event == events.EXECUTION_START:
            self._learn()
        elif event == events.MODULE_SWAPPED:
            await self.refresh()

    def stop(self) -> None:
        """Unsubscribe from all events."""
        self._stopped = True
        while self._undo:
            self._undo.popitem()[1]()

    def _learn(self) -> None:
        known = known_secrets(self._coordinator)
        for scrubber in self._scrubbers:
            scrubber.known = known


def _names(contributions: list[Any]) -> Iterator[str]:
    """Yield the event names that modules contributed, each as a list or as a single name."""
    for each in contributions:
        if isinstance(each, str):
            yield each
        elif isinstance(each, list | tuple | set | frozenset):
            yield from (name for name in cast("list[Any]", each) if isinstance(name, str))
