"""The configuration of hooks-logging; its README says what each key means."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

SESSION = "{session_id}"


class LoggingConfig(BaseModel):
    """Where the log lies, how large it may get, and what is left out of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(default=None, description="A file; `{session_id}` is filled in.")
    max_file_bytes: int = Field(default=20_000_000, ge=10_000)
    keep_files: int = Field(default=5, ge=1, description="Full files, besides the one written to.")
    max_record_bytes: int = Field(default=65_536, ge=1_024)
    max_value_chars: int = Field(default=8_192, ge=16)
    max_queue_records: int = Field(default=10_000, ge=1)
    max_queue_chars: int = Field(default=32_000_000, ge=1)
    exclude: list[str] = Field(
        default=["llm:stream_*delta", "content_block:delta", "thinking:delta"],
        description="Patterns of events that are not written.",
    )
    events: list[str] = Field(default=[], description="Further events, announced by nobody's list.")

    @field_validator("path")
    @classmethod
    def _one_file_per_session(cls, path: str | None) -> str | None:
        if path is not None and SESSION not in path:
            raise ValueError(f"`path` must contain {SESSION}: each session has a file of its own")
        return path
