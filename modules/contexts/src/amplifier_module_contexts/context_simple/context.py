"""The simple context: a conversation in memory."""

from __future__ import annotations

from typing import Any

from amplifier_core.hooks import HookRegistry
from amplifier_module_contexts.context import FittingContext
from amplifier_module_contexts.context_simple.config import ContextConfig
from amplifier_module_contexts.spill import MemoryBlobs


class SimpleContextManager(FittingContext):
    """Stores all messages in memory; returns those that fit.

    Takes the keys of `ContextConfig` as keywords.
    """

    name = "context-simple"

    def __init__(
        self, *, hooks: HookRegistry | None = None, coordinator: Any = None, **settings: Any
    ) -> None:
        config = ContextConfig.model_validate(settings)
        # Without a coordinator no `read_result` is mounted that could read the blobs.
        if coordinator is None:
            blobs = None
        else:
            blobs = MemoryBlobs(config.blob_bytes)
        super().__init__(config, hooks=hooks, coordinator=coordinator, blobs=blobs)
