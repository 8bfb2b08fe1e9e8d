"""Samples: one content block of each kind, and one good module of each kind as source text."""

from __future__ import annotations

from typing import Any

BLOCKS: dict[str, dict[str, Any]] = {
    "TextBlock": {"type": "text", "text": "hi"},
    "ThinkingBlock": {
        "type": "thinking",
        "thinking": "hm",
        "signature": "sig",
        "content": ["encrypted", "rs_1"],
    },
    "RedactedThinkingBlock": {"type": "redacted_thinking", "data": "opaque"},
    "ToolCallBlock": {"type": "tool_call", "id": "call_1", "name": "bash", "input": {"a": 1}},
    "ToolResultBlock": {"type": "tool_result", "tool_call_id": "call_1", "output": {"b": [2]}},
    "ImageBlock": {"type": "image", "source": {"type": "base64", "data": "eA=="}},
    "ReasoningBlock": {"type": "reasoning", "content": ["c"], "summary": ["s"]},
}

# With `without` in its config, a module mounts nothing.
GOOD: dict[str, str] = {
    "provider": """
        from amplifier_core import ProviderInfo

        class Thing:
            name = "good"
            def get_info(self):
                return ProviderInfo(id="good", display_name="Good")
            async def list_models(self):
                return []
            async def complete(self, request, **kwargs): ...
            def parse_tool_calls(self, response):
                return []

        async def mount(coordinator, config=None):
            if not (config or {}).get("without"):
                await coordinator.mount("providers", Thing(), name="good")
    """,
    "tool": """
        from amplifier_core import ToolResult

        class Thing:
            name = "good"
            description = "A good tool."
            input_schema = {"type": "object"}
            async def execute(self, input):
                return ToolResult(output=input)

        async def mount(coordinator, config=None):
            if not (config or {}).get("without"):
                await coordinator.mount("tools", Thing(), name="good")
    """,
    "orchestrator": """
        class Thing:
            async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
                return ""

        async def mount(coordinator, config=None):
            if not (config or {}).get("without"):
                await coordinator.mount("orchestrator", Thing())
    """,
    "context": """
        class Thing:
            async def add_message(self, message): ...
            async def get_messages_for_request(self, token_budget=None, provider=None):
                return []
            async def get_messages(self):
                return []
            async def set_messages(self, messages): ...
            async def clear(self): ...

        async def mount(coordinator, config=None):
            if not (config or {}).get("without"):
                await coordinator.mount("context", Thing())
    """,
    "hook": """
        class Thing:
            async def handle(self, event, data): ...

        async def mount(coordinator, config=None):
            remove = coordinator.get("hooks").register("tool:pre", Thing().handle, name="good")

            def cleanup():
                remove()

            return cleanup
    """,
}
