"""The vendors whose formats the suite speaks."""

from __future__ import annotations

from wire.vendor import Vendor
from wire.vendors.anthropic import Anthropic
from wire.vendors.chat_completions import ChatCompletions
from wire.vendors.gemini import Gemini
from wire.vendors.responses import Responses

VENDORS: tuple[Vendor, ...] = (Anthropic(), Responses(), ChatCompletions(), Gemini())
