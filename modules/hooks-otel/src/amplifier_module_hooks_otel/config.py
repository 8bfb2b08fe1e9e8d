"""The configuration of hooks-otel; its README says what each key means."""

from pydantic import BaseModel, Field


class OtlpConfig(BaseModel, extra="forbid", frozen=True):
    """Where to send spans and metrics; what is left out is as the environment says."""

    endpoint: str | None = Field(default=None, description="The base URL of an OTLP/HTTP receiver.")
    timeout_seconds: float = Field(default=10.0, gt=0, description="For one export.")
    service_name: str | None = None


class OtelConfig(BaseModel, extra="forbid", frozen=True):
    """Whose providers are used, and what is in the spans."""

    otlp: OtlpConfig | None = Field(default=None, description="Left out: the app's providers.")
    agent_name: str | None = None
    capture_content: bool = Field(default=False, description="What was said, in the spans.")
