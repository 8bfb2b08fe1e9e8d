"""The data that the kernel and its modules exchange, apart from messages."""

# No `from __future__ import annotations`: pydantic would compile every annotation a second time,
# which takes a sixth of the time this package needs to import.
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from operator import not_
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, Field, field_validator, model_validator

from amplifier_core.message_models import CostUsd, ImageBlock, RichOutput, TextBlock

__all__ = [
    "ConfigField",
    "ContextInjection",
    "HookResult",
    "ModelInfo",
    "ModuleInfo",
    "ModuleStatus",
    "Pricing",
    "ProviderInfo",
    "SessionStatus",
    "ToolResult",
    "UserMessage",
]


# Pydantic reads a factory's signature; for the built-in `list` that alone takes 2 ms.
def _new_list() -> list[Any]:
    return []


_UNSAFE = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]"


def sanitize_for_llm(text: str) -> str:
    """Remove control characters, except TAB, LF and CR, and lone surrogates."""
    return re.sub(_UNSAFE, "", text)


def json_default(obj: object) -> str:
    """Serve as `json.dumps(default=...)`: decimals become text, anything else is refused."""
    if isinstance(obj, Decimal):
        return str(obj)
    raise TypeError(f"Object of type {type(obj).__name__} is not JSON serializable")


# The names under which published code imports them.
_sanitize_for_llm = sanitize_for_llm
_json_default = json_default


_IMAGE_OMITTED = (
    "[Image omitted from tool event; original retained for model request if unmodified.]"
)


class ToolResult(BaseModel, defer_build=True, validate_assignment=True, hide_input_in_errors=True):
    """What one tool call came to.

    A failure is `success=False` with an `error` that has a "message". `content` is rich output
    for the model: text and base64 images, nothing else survives. `is_error` is read as the
    opposite of `success` when `success` is not given.
    """

    success: bool = True
    output: Any | None = None
    error: dict[str, Any] | None = None
    content: RichOutput | None = Field(default=None, exclude_if=not_)

    @model_validator(mode="before")
    @classmethod
    def _read_is_error(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = cast("dict[str, Any]", values)
        if "is_error" in given and "success" not in given:
            return {**given, "success": not given["is_error"]}
        return given

    def model_post_init(self, context: Any, /) -> None:
        """Use the message of a failure as its output."""
        if not self.success and self.output is None and self.error:
            self.output = self.error.get("message") or None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, but validate the updated fields."""
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        given = {name: getattr(copied, name) for name in copied.model_fields_set}
        return self.model_validate({**given, **update})

    def __str__(self) -> str:
        if self.success:
            return str(self.output) if self.output else "Success"
        return f"Error: {self._message()}" if self.error else "Failed"

    def get_serialized_output(self) -> str:
        """Return what the model should read, as clean text; for failures too."""
        if self.output is None:
            text = "Success" if self.success else f"Error: {self._message()}"
        else:
            structured = isinstance(self.output, dict | list)
            text = json.dumps(self.output, default=json_default) if structured else str(self.output)
        return sanitize_for_llm(text)

    def safe_hook_presentation(self) -> dict[str, Any]:
        """Return what hooks may see: everything, but with images replaced by a sentence."""
        shown: dict[str, Any] = {
            "success": self.success,
            "output": self.output,
            "error": self.error,
        }
        if self.content:
            shown["content"] = [
                {"type": "text", "text": _shown_text(block)} for block in self.content
            ]
        return shown

    def _message(self) -> str:
        return (self.error.get("message") or "Unknown error") if self.error else "Failed"


def _shown_text(block: TextBlock | ImageBlock) -> str:
    return block.text if isinstance(block, TextBlock) else _IMAGE_OMITTED


class ContextInjection(BaseModel, defer_build=True):
    """One piece of text a hook adds to the conversation, with its origin."""

    content: str
    role: Literal["system", "user", "assistant"] = "system"
    ephemeral: bool = False
    append_to_last_tool_result: bool = False
    hook_name: str = "unknown"
    event: str = ""


class UserMessage(BaseModel, defer_build=True):
    """One message of a hook to the user."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    source: str | None = None


class HookResult(BaseModel, defer_build=True):
    """A handler's answer to an event.

    `action` decides; the other fields are read only where it calls for them, except
    `user_message` and `suppress_output`, which go with any action. When several handlers answer,
    the registry merges: `context_injections` and `user_messages` have the parts of each of them.
    `denied_by` is set by the registry: the name of the handler that denied.
    """

    action: Literal["continue", "deny", "modify", "inject_context", "ask_user"] = "continue"
    data: dict[str, Any] | None = None
    reason: str | None = None
    context_injection: str | None = None
    context_injection_role: Literal["system", "user", "assistant"] = "system"
    ephemeral: bool = False
    approval_prompt: str | None = None
    approval_options: list[str] | None = None
    approval_timeout: float = Field(default=300.0, description="Seconds.")
    approval_default: Literal["allow", "deny"] = "deny"
    suppress_output: bool = False
    user_message: str | None = None
    user_message_level: Literal["info", "warning", "error"] = "info"
    user_message_source: str | None = None
    append_to_last_tool_result: bool = False
    context_injections: list[ContextInjection] = Field(default_factory=_new_list)
    user_messages: list[UserMessage] = Field(default_factory=_new_list)
    denied_by: str | None = None

    def injections(self, hook_name: str, event: str) -> list[ContextInjection]:
        """Return the injections, whether given as a list or in the fields of a single one."""
        if self.context_injections:
            return self.context_injections
        if self.context_injection is None:
            return []
        single = ContextInjection(
            content=self.context_injection,
            role=self.context_injection_role,
            ephemeral=self.ephemeral,
            append_to_last_tool_result=self.append_to_last_tool_result,
            hook_name=hook_name,
            event=event,
        )
        return [single]

    def with_injections(self, injections: list[ContextInjection]) -> Self:
        """Return a copy that injects these, for readers of the list and of the single fields."""
        update: dict[str, Any] = {
            "action": "continue",
            "context_injection": None,
            "ephemeral": False,
            "context_injections": injections,
        }
        if injections:
            update["action"] = "inject_context"
            update["context_injection"] = "\n\n".join(each.content for each in injections)
            update["context_injection_role"] = injections[0].role
            update["ephemeral"] = any(each.ephemeral for each in injections)
            update["append_to_last_tool_result"] = any(
                each.append_to_last_tool_result for each in injections
            )
        return self.model_copy(update=update)

    def messages(self, source: str | None = None) -> list[UserMessage]:
        """Return the messages, that of the single field first; `source` is its default source."""
        if not self.user_message:
            return self.user_messages
        single = UserMessage(
            text=self.user_message,
            level=self.user_message_level,
            source=self.user_message_source or source,
        )
        return [single, *self.user_messages]


class Pricing(BaseModel, defer_build=True):
    """What a model costs per million tokens, in one currency."""

    input_per_million: float
    output_per_million: float
    cache_read_per_million: float | None = None
    cache_write_per_million: float | None = None
    currency: str = "USD"

    @field_validator("currency")
    @classmethod
    def _three_capitals(cls, value: str) -> str:
        if not re.fullmatch("[A-Z]{3}", value):
            raise ValueError(f"currency must be a 3-letter ISO 4217 code, not {value!r}")
        return value


class ModelInfo(BaseModel, extra="allow", defer_build=True):
    """A model a provider offers; extra fields are kept."""

    id: str
    display_name: str
    context_window: int = Field(description="Tokens.")
    max_output_tokens: int
    capabilities: list[str] = Field(default_factory=_new_list)
    defaults: dict[str, Any] = Field(default_factory=dict)
    pricing: Pricing | None = None


class ConfigField(BaseModel, defer_build=True):
    """One question an app asks to set up a provider.

    `show_when` maps other fields' ids to the answers that make this question appear;
    `requires_model` delays it until a model is chosen.
    """

    id: str
    display_name: str
    field_type: Literal["text", "secret", "choice", "boolean"] = "text"
    prompt: str
    env_var: str | None = None
    choices: list[str] | None = None
    required: bool = True
    default: str | None = None
    show_when: dict[str, str] | None = None
    requires_model: bool = False


class ProviderInfo(BaseModel, defer_build=True):
    """What a provider says about itself.

    `defaults` should have `context_window` and `max_output_tokens`: contexts size requests by them.
    """

    id: str
    display_name: str
    credential_env_vars: list[str] = Field(default_factory=_new_list)
    capabilities: list[str] = Field(default_factory=_new_list)
    defaults: dict[str, Any] = Field(default_factory=dict)
    config_fields: list[ConfigField] = Field(default_factory=_new_list)


class ModuleInfo(BaseModel, defer_build=True):
    """A module the loader can find."""

    id: str
    name: str
    version: str
    type: Literal["orchestrator", "provider", "tool", "context", "hook", "resolver"]
    mount_point: str
    description: str
    config_schema: dict[str, Any] | None = None


class ModuleStatus(BaseModel, defer_build=True):
    """What became of one module of the mount plan."""

    module_id: str
    module_type: str
    state: Literal["mounted", "failed", "swapped"]
    error: str | None = None
    instance_id: str | None = None
    required: bool = False


def _now() -> datetime:
    return datetime.now(UTC)


class SessionStatus(BaseModel, defer_build=True):
    """Where a session stands; times are UTC."""

    session_id: str
    started_at: datetime = Field(default_factory=_now)
    ended_at: datetime | None = None
    status: Literal["running", "completed", "failed", "cancelled"] = "running"
    total_messages: int = 0
    tool_invocations: int = 0
    tool_successes: int = 0
    tool_failures: int = 0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    cost_usd: CostUsd | None = None
    last_activity: datetime | None = None
    last_error: dict[str, Any] | None = None
    modules: list[ModuleStatus] = Field(default_factory=_new_list)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON-ready data, without fields that are None."""
        return self.model_dump(mode="json", exclude_none=True)
