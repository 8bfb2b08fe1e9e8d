"""hooks-otel: one trace from a request to the deepest agent, in OpenTelemetry's conventions."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from opentelemetry import metrics, trace

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_hooks_otel.config import OtelConfig
from amplifier_module_hooks_otel.model_calls import Instruments
from amplifier_module_hooks_otel.telemetry import FIND, HANDLERS, TELEMETRY, Telemetry
from amplifier_module_hooks_otel.traced_tool import TracedTool
from amplifier_module_hooks_otel.trouble import DEGRADED, NAME, Trouble

__amplifier_module_type__ = "hook"

# Last for events that begin a span, first for those that end one: the time of other hooks is not
# counted, and a call that a guard denies gets no span.
_FIRST = -sys.maxsize
_LAST = sys.maxsize + 1
_BEGINS = (events.LLM_REQUEST, events.TOOL_PRE)
_NO_PROVIDER = "The app has set no OpenTelemetry provider: nothing is recorded."
_NO_SDK = "`otlp` needs opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http."


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]]:
    """Trace this session and all sessions forked from it. Config: see `OtelConfig`.

    Cleanup: stops listening, and sends what is queued.
    """
    settings = OtelConfig.model_validate(config or {})
    async with AsyncExitStack() as undo:
        hooks = coordinator.hooks
        handed = coordinator.get_capability(TELEMETRY)
        inherited = await hooks.emit_and_collect(FIND, {})
        telemetry: Telemetry | None = inherited[0][TELEMETRY] if inherited else handed
        telemetry = telemetry or _new(coordinator, settings, undo)
        for event in () if inherited else (FIND, *HANDLERS):
            priority = _LAST if event in _BEGINS else _FIRST
            # Registered as a guard, so that children without this module inherit it.
            undo.callback(hooks.register(event, telemetry, priority, NAME, on_error="deny"))
        if not inherited:

            def traced(name: str, tool: Any) -> Any:
                return TracedTool(tool, telemetry)

            undo.callback(coordinator.interpose("tools", traced, name=NAME, inherit=True))
        telemetry.enter(coordinator, settings)
        coordinator.register_capability(TELEMETRY, telemetry)
        coordinator.register_contributor("observability.events", NAME, lambda: [DEGRADED])
        return undo.pop_all().aclose


def _new(coordinator: ModuleCoordinator, config: OtelConfig, undo: AsyncExitStack) -> Telemetry:
    trouble = Trouble(coordinator)
    undo.push_async_callback(trouble.settle)
    tracers: Any = coordinator.get_capability("otel.tracer_provider")
    meters: Any = coordinator.get_capability("otel.meter_provider")
    if config.otlp is not None:
        try:
            from amplifier_module_hooks_otel.otlp import Export  # noqa: PLC0415 - optional libraries
        except ImportError as error:
            raise ImportError(_NO_SDK) from error
        export = Export(config.otlp, coordinator.session_id, trouble)
        undo.push_async_callback(export.close)
        tracers = export.tracers
        meters = export.meters
    tracers = tracers or trace.get_tracer_provider()
    if isinstance(tracers, trace.ProxyTracerProvider):
        trouble.tell("no_provider", _NO_PROVIDER)
    instruments = Instruments((meters or metrics.get_meter_provider()).get_meter(__name__))
    telemetry = Telemetry(coordinator, config, tracers.get_tracer(__name__), instruments, trouble)
    undo.callback(telemetry.close)
    return telemetry
