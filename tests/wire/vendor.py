"""What the wire suite knows of a vendor, and the vendor-neutral words its tests are written in.

A test scripts the server with the dataclasses below. A `Vendor` turns them into the vendor's own
wire format, exactly as the real API sends it, and reads back what our provider sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

Feature = Literal[
    "thinking",  # an answer can carry thinking text that becomes a ThinkingBlock
    "signature",  # thinking carries a `signature` that must go back untouched
    "redacted",  # an answer can carry encrypted thinking (`RedactedThinking`)
    "argument_text",  # tool arguments travel as JSON text, which may be cut off
    "image_urls",  # an image can be sent by its URL
    "tool_result_images",  # an image can be part of a tool result
    "count_tokens",  # the vendor counts tokens: the provider has `count_tokens`
    "cache_write",  # usage says how many tokens were written to the cache
    "early_usage",  # a stream reports usage before its end
    "reasoning_tokens",  # usage says how many tokens were spent on thinking
    "comments",  # servers send SSE comments to keep a connection alive
    "stop",  # stop sequences can be sent
    "priced",  # the price data knows `model`
]

Kind = Literal[
    "invalid", "auth", "denied", "not_found", "too_long", "rate_limit", "quota", "overloaded",
    "server",
]  # fmt: skip
Finish = Literal["stop", "tool_calls", "length", "filter"]


# --- what the server says -------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Text for the reader."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """Thinking in clear, and what the vendor verifies when it comes back."""

    text: str
    signature: str = ""


@dataclass(frozen=True)
class RedactedThinking:
    """Thinking the vendor encrypted."""

    data: str


@dataclass(frozen=True)
class ToolUse:
    """A call; `arguments_json` goes over the wire as it stands, also when it is no JSON."""

    id: str
    name: str
    arguments_json: str = "{}"


Block = Text | Thinking | RedactedThinking | ToolUse


@dataclass(frozen=True)
class Counts:
    """Tokens, gross: `input` includes what was read from or written to the cache, `output` includes
    `reasoning`. A vendor that reports net counts subtracts; what it cannot report it leaves out.
    """

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Answer:
    """A good answer. `Answer.of("text")` is short for one block of text."""

    blocks: Sequence[Block]
    usage: Counts = field(default_factory=Counts)
    finish: Finish = "stop"
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, text: str, **usage: int) -> Answer:
        """Return an answer of one text; keywords are `Counts`."""
        return cls([Text(text)], Counts(**usage))


@dataclass(frozen=True)
class Refuse:
    """An HTTP error. `raw` replaces the vendor's error body, for what a proxy in between says."""

    status: int
    kind: Kind
    message: str = "refused for the test"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    raw: bytes | None = None


# Faults. `after` says where they strike: a number counts SSE events (negative: from the end), a
# text means right after the first event that contains it. An answer that is not streamed is struck
# in the middle of its JSON body instead.


@dataclass(frozen=True)
class Cut:
    """The body ends in good order, as HTTP sees it, but too early."""

    answer: Answer
    after: int | str


@dataclass(frozen=True)
class Drop:
    """The connection is reset."""

    answer: Answer
    after: int | str


@dataclass(frozen=True)
class Stall:
    """The server falls silent and keeps the connection open."""

    answer: Answer
    after: int | str


@dataclass(frozen=True)
class Hold:
    """The server falls silent until the event `until` is set, then goes on."""

    answer: Answer
    after: int | str
    until: asyncio.Event


@dataclass(frozen=True)
class Garble:
    """The next event has half of its data; the rest follows as if nothing had happened."""

    answer: Answer
    after: int | str


@dataclass(frozen=True)
class ErrorEvent:
    """The vendor reports an error inside a stream that began well, and ends it."""

    answer: Answer
    after: int | str
    refuse: Refuse


@dataclass(frozen=True)
class Slow:
    """Every event comes `pause_seconds` after the one before."""

    answer: Answer
    pause_seconds: float


@dataclass(frozen=True)
class Shred:
    """The bytes come in pieces that cut through lines and characters.

    `comment` comes between the events, as some servers do it to keep a connection alive.
    """

    answer: Answer
    comment: bytes = b""


@dataclass(frozen=True)
class HalfOpen:
    """The request is read and never answered."""


Fault = Cut | Drop | Stall | Hold | Garble | ErrorEvent | Slow | Shred
Reply = Answer | Refuse | Fault | HalfOpen


def fragments(text: str) -> list[str]:
    """Return a text word by word, spaces kept, as streams bring it."""
    return re.findall(r"\S+\s*|\s+", text)


def pieces(text: str, size: int = 5) -> list[str]:
    """Return tool arguments in pieces of a few characters, as streams bring them."""
    return [text[start : start + size] for start in range(0, len(text), size)]


# --- what our provider sent -----------------------------------------------------------------------


class Said(NamedTuple):
    """A text of the conversation; the role is `user`, `assistant` or the vendor's `developer`."""

    role: str
    text: str


class SentTool(NamedTuple):
    """A tool that was offered."""

    name: str
    description: str | None
    schema: dict[str, Any]


class SentCall(NamedTuple):
    """A call of an earlier answer, on its way back."""

    id: str
    name: str
    arguments: dict[str, Any]


class SentResult(NamedTuple):
    """The result of a call; `text` joins its texts, `images` are its pictures."""

    id: str
    text: str
    images: list[str]


class Vendor(Protocol):
    """One wire format. An implementation has no state: every method is a function of its arguments.

    Put it in `tests/wire/vendors/<name>.py` as a class, and an instance of it into `VENDORS` of
    `tests/wire/vendors/__init__.py`.
    """

    # The short id that tests show (`pytest -k <id>`).
    id: str
    # The module under test, such as `provider-anthropic`.
    module_id: str
    # The top-level package of the SDK, which must not be imported before the provider is mounted.
    sdk: str
    # The environment variables that may hold the key; tests clear them.
    key_variables: tuple[str, ...]
    # What the wire format can express; a case that needs more is not run for this vendor.
    features: frozenset[Feature]
    # The model that tests ask for.
    model: str
    # How many events at the end of `stream` say that the answer is complete: without them all, it
    # is not.
    terminal_events: int

    def config(self, base_url: str) -> dict[str, Any]:
        """Return the mount config: this server, a made-up key, `model` as the default model.

        Tests add short delays and timeouts themselves.
        """
        ...

    # --- the server's side ---

    def is_generation(self, method: str, path: str) -> bool:
        """Whether this request asks for an answer; `path` has no query string."""
        ...

    def wants_stream(self, path: str, body: dict[str, Any]) -> bool:
        """Whether the answer is asked for as SSE."""
        ...

    def stream(self, answer: Answer, body: dict[str, Any]) -> list[bytes]:
        """Return the answer as complete SSE frames, each with its empty line at the end.

        Text and thinking come in `fragments`, arguments in `pieces`; every event the real API
        sends is there, in its order.
        """
        ...

    def body(self, answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
        """Return the same answer as the JSON of an unstreamed response."""
        ...

    def error(self, refuse: Refuse) -> dict[str, Any]:
        """Return the JSON body of an HTTP error, with the vendor's words for `refuse.kind`."""
        ...

    def error_event(self, refuse: Refuse) -> bytes:
        """Return the SSE frame in which the vendor reports an error inside a stream."""
        ...

    def side_route(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """Return the answer to any other request; None makes it a 404.

        The list of models has `model` and one named `second-model`. Counting tokens answers
        `COUNTED`.
        """
        ...

    # --- our side, as it reached the server ---

    def sent_model(self, path: str, body: dict[str, Any]) -> str:
        """Return the model that was asked."""
        ...

    def sent_texts(self, body: dict[str, Any]) -> list[Said]:
        """Return the texts of the conversation in order, without system texts and tool results."""
        ...

    def sent_system(self, body: dict[str, Any]) -> str:
        """Return the system texts in order, joined by newlines."""
        ...

    def sent_tools(self, body: dict[str, Any]) -> list[SentTool]:
        """Return the tools that were offered."""
        ...

    def sent_tool_calls(self, body: dict[str, Any]) -> list[SentCall]:
        """Return the calls of earlier answers."""
        ...

    def sent_tool_results(self, body: dict[str, Any]) -> list[SentResult]:
        """Return the results of calls."""
        ...

    def sent_images(self, body: dict[str, Any]) -> list[str]:
        """Return the pictures outside of tool results: base64 data as it was sent, or the URL."""
        ...

    def sent_files(self, body: dict[str, Any]) -> list[str]:
        """Return the base64 data of the files that were sent as such, and not as text."""
        ...

    def sent_checked_fields(self, body: dict[str, Any]) -> list[str]:
        """Return, in order, all that the vendor verifies byte for byte when it comes back.

        Signatures, redacted data, encrypted reasoning, thought signatures; also the thinking text
        where the signature covers it, and the ids of calls and results.
        """
        ...

    def checked_fields(self, answer: Answer) -> list[str]:
        """Return what `sent_checked_fields` must return once `answer` came back with its results.

        The results are in the order of the calls, one each.
        """
        ...

    def sent_schema(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the JSON schema that the answer must fit."""
        ...

    def sent_max_tokens(self, body: dict[str, Any]) -> int | None:
        """Return the limit of the answer."""
        ...

    def sent_temperature(self, body: dict[str, Any]) -> float | None:
        """Return the temperature."""
        ...

    def sent_stop(self, body: dict[str, Any]) -> list[str]:
        """Return the stop sequences."""
        ...

    def sent_tool_choice(self, body: dict[str, Any]) -> str | None:
        """Return `auto`, `none`, `required`, or the name of the one tool that must be called."""
        ...

    def sent_effort(self, body: dict[str, Any]) -> object:
        """Return how hard the model is to think, in the vendor's own terms; None: not said."""
        ...

    def sent_prefix(self, body: dict[str, Any]) -> list[str]:
        """Return what the vendor's cache reads, piece by piece in its order, as JSON text.

        Each tool, the system text, each message; without markers that move from call to call.
        """
        ...


# What counting tokens answers.
COUNTED = 1234
