"""Checks of tool and hook results that arrive as plain dicts, from other languages or processes."""

from __future__ import annotations

from typing import Any

__all__ = [
    "VALID_APPROVAL_DEFAULTS",
    "VALID_CONTEXT_INJECTION_ROLES",
    "VALID_HOOK_ACTIONS",
    "VALID_USER_MESSAGE_LEVELS",
    "validate_hook_result",
    "validate_tool_result",
]

VALID_HOOK_ACTIONS = frozenset({"continue", "deny", "modify", "inject_context", "ask_user"})
VALID_CONTEXT_INJECTION_ROLES = frozenset({"system", "user", "assistant"})
VALID_APPROVAL_DEFAULTS = frozenset({"allow", "deny"})
VALID_USER_MESSAGE_LEVELS = frozenset({"info", "warning", "error"})

_WORDS = {
    "action": VALID_HOOK_ACTIONS,
    "context_injection_role": VALID_CONTEXT_INJECTION_ROLES,
    "user_message_level": VALID_USER_MESSAGE_LEVELS,
    "approval_default": VALID_APPROVAL_DEFAULTS,
}


def validate_tool_result(result: dict[str, Any]) -> list[str]:
    """Return what is wrong with a tool result; an empty list if it is valid."""
    if "success" not in result:
        return ["Missing required field: 'success'"]
    if not isinstance(result["success"], bool):
        return [f"Field 'success' must be bool, got {type(result['success']).__name__}"]
    return []


def validate_hook_result(result: dict[str, Any]) -> list[str]:
    """Return what is wrong with a hook result; an empty list if it is valid."""
    return [
        f"Invalid {field} '{result[field]}': must be one of {sorted(words)}"
        for field, words in _WORDS.items()
        if field in result and result[field] not in words
    ]
