"""Whatever is said and however small the budget, a request has the whole ledger or is not made."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from amplifier_core import ContextLengthError
from amplifier_core.testing import MockProvider
from amplifier_module_contexts.context_summarizing import SummarizingContextManager
from amplifier_module_contexts.context_summarizing.config import SummarizingConfig

ENTRIES = st.text(alphabet="abc \n", min_size=1, max_size=300).filter(str.strip)


def _saying(role: str, length: int) -> dict[str, Any]:
    return {"role": role, "content": "x" * length}


ROLES = st.sampled_from(["user", "assistant", "system"])
MESSAGES = st.builds(_saying, ROLES, st.integers(0, 1_500))


class Screen:
    """A person who does not look."""

    def __init__(self) -> None:
        self.display_system = self
        self.session_state: dict[str, Any] = {}

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        """Show nothing."""


@settings(max_examples=50)
@given(st.lists(ENTRIES, max_size=4), st.lists(MESSAGES, max_size=25), st.integers(200, 2_000))
def test_every_entry_is_in_every_compacted_request(
    entries: list[str], messages: list[dict[str, Any]], budget: int
) -> None:
    async def check() -> None:
        config = SummarizingConfig(pinned=tuple(entry.strip() for entry in entries))
        context = SummarizingContextManager(config, coordinator=Screen())
        provider = MockProvider()
        for message in messages:
            await context.add_message(message)
            try:
                view = await context.get_messages_for_request(budget, provider)
            except ContextLengthError:
                continue
            if view != context.messages:
                said = "\n".join(each["content"] for each in view)
                kept = [entry for each in context.ledger.entries().values() for entry in each]
                assert all(entry in said for entry in kept)
                assert len(said) <= budget * 4

    asyncio.run(check())
