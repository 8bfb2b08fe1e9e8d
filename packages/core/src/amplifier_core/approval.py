"""The app's way to ask a person for permission, as the kernel sees it."""

from __future__ import annotations

from typing import Literal, Protocol

from amplifier_core._structural import structural

__all__ = ["ApprovalSystem", "ApprovalTimeoutError"]


class ApprovalTimeoutError(Exception):
    """Nobody answered in time."""


@structural
class ApprovalSystem(Protocol):
    """Asks a person. `interfaces.ApprovalProvider` is the counterpart for modules."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Show `prompt` and return one of `options`.

        Raises:
            ApprovalTimeoutError: nobody answered within `timeout` seconds. The kernel then takes
                `default`.
        """
        ...
