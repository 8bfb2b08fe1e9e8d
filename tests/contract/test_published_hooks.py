"""What each published hook module takes from the kernel, by stand-ins that use it that way."""

from __future__ import annotations

from typing import Any

from amplifier_core import (
    AmplifierSession,
    ApprovalRequest,
    ApprovalResponse,
    HookResult,
    ModuleCoordinator,
    ToolResult,
)
from contract.installer import Installer
from contract.requirements import requirement
from contract.stand_ins import Listener


class ApprovalHook:
    """Asks a registered provider about every tool, the way hooks-approval does."""

    def __init__(self, hooks: Any, coordinator: ModuleCoordinator) -> None:
        self.hooks, self.coordinator = hooks, coordinator
        self.provider: Any = None

    def register_provider(self, provider: Any) -> None:
        """Take whoever answers."""
        self.provider = provider

    async def handle_tool_pre(self, event: str, data: dict[str, Any]) -> HookResult:
        """Ask when the tool is on the list."""
        state = getattr(self.coordinator, "session_state", {})
        assert data.get("tool_obj") is None
        if data["tool_name"] not in state.get("require_approval_tools", ()):
            return HookResult(action="continue")
        request = ApprovalRequest(
            tool_name=data["tool_name"], action="run", risk_level="high", timeout=5.0
        )
        await self.hooks.emit("approval:required", {"tool_name": request.tool_name})
        response = await self.provider.request_approval(request)
        event = "approval:granted" if response.approved else "approval:denied"
        await self.hooks.emit(event, {"tool_name": request.tool_name})
        if response.approved:
            return HookResult(action="continue")
        return HookResult(action="deny", reason=response.reason)


@requirement("PUB-17")
async def test_hooks_approval_asks_from_inside_a_handler(installed: Installer) -> None:
    class Person:
        async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
            return ApprovalResponse(approved=False, reason=f"not {request.tool_name}")

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        hooks = coordinator.get("hooks")
        hook = ApprovalHook(hooks, coordinator)
        remove = hooks.register(
            "tool:pre", hook.handle_tool_pre, priority=-10, name="approval_hook"
        )
        coordinator.register_capability("approval.register_provider", hook.register_provider)
        return remove

    installed.add("hooks-approval", mount)
    session = AmplifierSession(installed.basics(hooks=[{"module": "hooks-approval"}]))
    heard = Listener()
    for event in ("approval:required", "approval:granted", "approval:denied"):
        session.coordinator.hooks.register(event, heard)

    async with session:
        session.coordinator.get_capability("approval.register_provider")(Person())
        session.coordinator.session_state["require_approval_tools"] = {"bash"}
        denied = await session.coordinator.hooks.emit("tool:pre", {"tool_name": "bash"})
        passed = await session.coordinator.hooks.emit("tool:pre", {"tool_name": "read"})

    assert (denied.action, denied.reason) == ("deny", "not bash")
    assert passed.action == "continue"
    assert heard.events == ["approval:required", "approval:denied"]
    assert session.coordinator.hooks.list_handlers("tool:pre") == {"tool:pre": []}


@requirement("PUB-18")
async def test_hooks_redaction_scrubs_twenty_events_under_one_name(installed: Installer) -> None:
    events = [f"family:{number}" for number in range(19)] + ["tool:post"]

    async def scrub(event: str, data: dict[str, Any]) -> HookResult:
        scrubbed = {key: "[REDACTED]" if key == "secret" else data[key] for key in data}
        return HookResult(action="modify", data={**scrubbed, "redaction": {"applied": True}})

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        for event in events:
            coordinator.hooks.on(event, scrub, name="hooks-redaction", priority=10)

    installed.add("hooks-redaction", mount)
    own = ToolResult(output={"n": 1})
    heard = Listener()

    async with AmplifierSession(installed.basics(hooks=[{"module": "hooks-redaction"}])) as session:
        hooks = session.coordinator.hooks
        for event in (*events, "other:event"):
            hooks.register(event, heard, 90)
            result = await hooks.emit(event, {"secret": "s", "result": own})
            assert result.data is not None
            assert result.data["result"] is own
        seen = [data["secret"] for _, data in heard.calls]
        hooks.unregister("hooks-redaction")
        assert "hooks-redaction" not in str(hooks.list_handlers())

    assert seen == ["[REDACTED]"] * 20 + ["s"]
