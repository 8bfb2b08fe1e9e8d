"""What each published hook module takes from the kernel, with the calls it makes."""

from __future__ import annotations

from typing import Any, cast

from amplifier_core import (
    AmplifierSession,
    ApprovalRequest,
    ApprovalResponse,
    HookResult,
    ModuleCoordinator,
    ToolResult,
)
from contract.doubles import Listener
from contract.installer import Installer
from contract.requirements import requirement


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


# The events hooks-redaction listens to; the two it leaves as they are feed the model.
REDACTED_EVENTS = [
    "session:start",
    "session:end",
    "prompt:submit",
    "prompt:complete",
    "plan:start",
    "plan:end",
    "provider:request",
    "provider:response",
    "provider:error",
    "tool:pre",
    "tool:post",
    "tool:error",
    "context:pre_compact",
    "context:post_compact",
    "artifact:write",
    "artifact:read",
    "policy:violation",
    "approval:required",
    "approval:granted",
    "approval:denied",
]
LEFT_ALONE = {"tool:pre", "tool:post"}


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("AKIA", "[REDACTED:SECRET]")
    if isinstance(value, list):
        return [_scrubbed(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _scrubbed(each) for key, each in cast("dict[str, Any]", value).items()}
    return value


async def _mount_redaction(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> None:
    priority = int((config or {}).get("priority", 10))

    async def handler(event: str, data: dict[str, Any]) -> HookResult:
        if event in LEFT_ALONE:
            return HookResult(action="continue")
        redacted = _scrubbed(data)
        if not isinstance(redacted, dict):
            return HookResult(action="continue")
        redacted["redaction"] = {"applied": True, "rules": ["secrets"]}
        return HookResult(action="modify", data=cast("dict[str, Any]", redacted))

    for ev in REDACTED_EVENTS:
        coordinator.hooks.on(ev, handler, name="hooks-redaction", priority=priority)


@requirement("PUB-18")
async def test_hooks_redaction_scrubs_twenty_events_under_one_name(installed: Installer) -> None:
    installed.add("hooks-redaction", _mount_redaction)
    plan = installed.basics(hooks=[{"module": "hooks-redaction"}])
    own = ToolResult(output={"n": 1})
    before, after = Listener(), Listener()

    async with AmplifierSession(plan) as session:
        hooks = session.coordinator.hooks
        assert sum(names == ["hooks-redaction"] for names in hooks.list_handlers().values()) == 20
        for event in (*REDACTED_EVENTS, "other:event"):
            hooks.register(event, before, 9)
            hooks.register(event, after, 11)
            sent = {"text": "key AKIA", "deep": [{"text": "AKIA"}], "own": own, "n": 1}
            result = await hooks.emit(event, sent)

            redacts = event in REDACTED_EVENTS and event not in LEFT_ALONE
            word = "[REDACTED:SECRET]" if redacts else "AKIA"
            assert before.data["text"] == "key AKIA"
            assert result.action == "continue"
            assert result.data is not None
            for seen in (after.data, result.data):
                assert (seen["text"], seen["deep"]) == (f"key {word}", [{"text": word}])
                assert ("redaction" in seen) is redacts
                assert seen["session_id"] == session.session_id
            # What was not scrubbed comes back to the loop as the very object it sent.
            assert result.data["own"] is own
            assert sent == {"text": "key AKIA", "deep": [{"text": "AKIA"}], "own": own, "n": 1}
        hooks.unregister("hooks-redaction")
        assert "hooks-redaction" not in str(hooks.list_handlers())


@requirement("PUB-18")
async def test_each_of_the_twenty_registrations_can_be_removed_by_itself() -> None:
    hooks = ModuleCoordinator().hooks
    handler = Listener()
    removers = [hooks.on(ev, handler, name="same", priority=10) for ev in REDACTED_EVENTS]

    removers[3]()

    for event in REDACTED_EVENTS:
        await hooks.emit(event, {})
    assert handler.events == [each for each in REDACTED_EVENTS if each != REDACTED_EVENTS[3]]
