"""bench-loop: the smallest loop that announces what the orchestrator contract asks for."""

from __future__ import annotations

from typing import Any

from amplifier_core import ChatRequest, HookRegistry, HookResult, ModuleCoordinator

__amplifier_module_type__ = "orchestrator"


class BenchLoop:
    """Runs a turn with public calls only, so that it runs the same on any kernel.

    No cancellation, no injection, no parallel tools: what is left is the kernel's own cost.
    """

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: HookRegistry,
        coordinator: ModuleCoordinator,
    ) -> str:
        async def ask(event: str, data: dict[str, Any]) -> HookResult:
            return await coordinator.process_hook_result(await hooks.emit(event, data), event)

        await ask("prompt:submit", {"prompt": prompt})
        await hooks.emit("execution:start", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        name, provider = next(iter(providers.items()))
        specs = [
            {"name": each.name, "description": each.description, "parameters": each.input_schema}
            for each in tools.values()
        ]
        steps = 0
        while True:
            steps += 1
            await ask("provider:request", {"provider": name, "iteration": steps})
            messages = await context.get_messages_for_request(provider=provider)
            response = await provider.complete(
                ChatRequest.model_validate({"messages": messages, "tools": specs})
            )
            calls = provider.parse_tool_calls(response)
            await hooks.emit("provider:response", {"provider": name, "tool_calls": bool(calls)})
            content = [block.model_dump() for block in response.content]
            await context.add_message({"role": "assistant", "content": content})
            if not calls:
                break
            for call in calls:
                await context.add_message(await _run(call, tools, ask))
        answer: str = response.content[0].text
        await hooks.emit("execution:end", {"response": answer, "status": "completed"})
        done = {"orchestrator": "bench-loop", "turn_count": steps, "status": "success"}
        await hooks.emit("orchestrator:complete", done)
        return answer


async def _run(call: Any, tools: dict[str, Any], ask: Any) -> dict[str, Any]:
    data = {"tool_name": call.name, "tool_input": call.arguments, "tool_call_id": call.id}
    before = await ask("tool:pre", data)
    if before.action == "deny":
        return {"role": "tool", "tool_call_id": call.id, "content": f"Denied: {before.reason}"}
    result = await tools[call.name].execute(call.arguments)
    await ask("tool:post", {**data, "result": result})
    return {"role": "tool", "tool_call_id": call.id, "content": result.get_serialized_output()}


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount the loop. No configuration."""
    await coordinator.mount("orchestrator", BenchLoop())
