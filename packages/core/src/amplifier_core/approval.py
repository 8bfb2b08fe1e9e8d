"""The protocol by which an app asks the user for permission."""

from __future__ import annotations

from typing import Literal, Protocol

from amplifier_core._structural import structural

__all__ = ["ApprovalSystem", "ApprovalTimeoutError"]


class ApprovalTimeoutError(Exception):
    """Nobody answered in time."""


@structural
class ApprovalSystem(Protocol):
    """Asks the user. `interfaces.ApprovalProvider` is the counterpart for modules."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Show `prompt` and return one of `options`.

        Raises:
            ApprovalTimeoutError: nobody answered within `timeout` seconds. The kernel then takes
                `default`.
        """
        ...
