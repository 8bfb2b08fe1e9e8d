"""The behaviour that every provider must have."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatResponse, TextBlock
from amplifier_core.models import ModelInfo, ProviderInfo

__all__ = ["ProviderBehaviorTests"]


@pytest.mark.asyncio
@pytest.mark.module_validation
class ProviderBehaviorTests:
    """Inherit this in the tests of a provider."""

    async def test_mount_succeeds(self, provider_module: Any) -> None:
        """Mounting provides a provider."""
        assert provider_module is not None

    async def test_get_info_returns_valid_provider_info(self, provider_module: Any) -> None:
        """The provider describes itself."""
        info = provider_module.get_info()
        assert isinstance(info, ProviderInfo)
        assert info.id, "ProviderInfo.id must not be empty"
        assert info.display_name, "ProviderInfo.display_name must not be empty"

    async def test_list_models_returns_list(self, provider_module: Any) -> None:
        """The provider lists its models; one that cannot reach its vendor may raise an LLMError."""
        try:
            models = await provider_module.list_models()
        except LLMError as error:
            pytest.skip(f"the vendor cannot be asked with what the tests have: {error!r}")
        assert isinstance(models, list)
        assert all(isinstance(model, ModelInfo) for model in models), "not all are ModelInfo"  # pyright: ignore[reportUnknownVariableType] - that is what is asked

    async def test_provider_has_name_attribute(self, provider_module: Any) -> None:
        """The provider has a name to be mounted under."""
        assert isinstance(provider_module.name, str)
        assert provider_module.name, "name must not be empty"

    async def test_parse_tool_calls_returns_list(self, provider_module: Any) -> None:
        """A response without tool calls yields an empty list."""
        response = ChatResponse(content=[TextBlock(text="no tools needed")])
        assert list(provider_module.parse_tool_calls(response)) == []
