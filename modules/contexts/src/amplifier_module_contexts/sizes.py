"""Estimate how much of a model's window messages take, corrected by reported usage."""

from __future__ import annotations

import math
from typing import Any, cast

from amplifier_core.models import HookResult
from amplifier_kit.calls.files import attached_file

# Vendors spend a few tokens on the frame of each message.
FRAME = 16
# Vendors bill a picture by its pixels, not by the length of its base64 data. At 4 characters per
# token this is 1,600 tokens.
IMAGE = 6_400
# Types of content blocks that are tool calls.
CALLS = ("tool_call", "tool_use")


def message_size(message: dict[str, Any]) -> int:
    """Return the characters of everything in `message` that is sent to a model."""
    try:
        size = FRAME + sum(_size(value) for key, value in message.items() if key != "metadata")
        if message.get("tool_calls"):
            # Loops store a call among the content blocks as well; it is sent once.
            size -= min(_size(message["tool_calls"]), _size(call_blocks(message)))
        return size
    except RecursionError:
        raise ValueError("Message contains itself, or is nested too deeply") from None


def _size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        if fields.get("type") == "image":
            return _picture_size(fields.get("source"))
        return sum(len(str(key)) + _size(each) for key, each in fields.items())
    if isinstance(value, list | tuple):
        return sum(_size(each) for each in cast("list[Any]", value))
    if value is None:
        return 0
    return len(str(value))


def _picture_size(source: Any) -> int:
    """Return the size of an image block; a text file in it is sent as its text."""
    file = attached_file(source)
    if file is not None and file.is_text:
        return len(file.data) * 3 // 4
    return IMAGE


def call_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls among the content blocks of a message."""
    content: Any = message.get("content")
    blocks: list[Any] = [each for each in content or () if type(each) is dict]
    return [block for block in blocks if block.get("type") in CALLS]


# Below this, the size of the tool schemas distorts the ratio of characters to tokens.
_TELLING_TOKENS = 1_000
_LEAST = 0.5
_MOST = 2.0
# The factor moves in steps of a tenth, so that a view does not change with every response.
_STEPS = 10


class Calibration:
    """Turns characters into tokens by an estimate, corrected by a factor.

    Reported usage moves the factor between 0.5 and 2. An exact count that was too large raises it
    as far as it must, and usage does not lower it below that again.
    """

    __slots__ = ("_chars_per_token", "_floor", "factor", "sent")

    def __init__(self, chars_per_token: float) -> None:
        self._chars_per_token = chars_per_token
        self._floor = 0.0
        self.factor = 1.0
        # The size in characters of the messages that are about to be sent.
        self.sent: int | None = None

    def tokens(self, chars: int) -> int:
        """Return the tokens that `chars` characters take, rounded up."""
        return math.ceil(chars * self.factor / self._chars_per_token)

    def chars(self, tokens: int) -> int:
        """Return the characters that fit into `tokens`, rounded down."""
        return math.floor(tokens * self._chars_per_token / self.factor)

    def raise_to(self, chars: int, counted: int, *, least: float) -> None:
        """Learn that `chars` characters take `counted` tokens; grow at least `least`-fold."""
        needed = math.ceil(counted / chars * self._chars_per_token * _STEPS) / _STEPS
        self._floor = self.factor = max(needed, self.factor * least)

    def forget_counts(self) -> None:
        """Forget the exact counts, because the history was replaced."""
        self._floor, self.factor = 0.0, min(_MOST, self.factor)

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Learn from the usage in `llm:response` or `provider:response`, once per request.

        A count below half of the estimate is ignored: it belongs to another caller, or does not
        include tokens that the vendor had cached.
        """
        usage: Any = data.get("usage")
        if isinstance(usage, dict):
            counted = cast("Any", usage).get("input_tokens")
        else:
            counted = None
        if self.sent is not None and isinstance(counted, int):
            estimate = self.sent / self._chars_per_token
            self.sent = None
            if estimate >= _TELLING_TOKENS and counted >= estimate * _LEAST:
                reported = math.ceil(counted / estimate * _STEPS) / _STEPS
                self.factor = max(self._floor, min(_MOST, reported))
        return HookResult()
