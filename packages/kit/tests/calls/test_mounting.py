"""Mounting a provider: in its place, with its costs and events where apps look for them."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatResponse, TextBlock, ToolCall, ToolCallBlock
from amplifier_core.testing import MockCoordinator
from amplifier_kit.calls.lazy_client import LazyClient
from amplifier_kit.calls.model_calls import OWN_EVENTS, ModelCalls
from amplifier_kit.calls.mounting import calls_in_response, mount_provider, with_key
from amplifier_kit.calls.settings import ProviderSettings


class Client:
    closed = False

    def close(self) -> None:
        self.closed = True


def nothing(error: BaseException, model: str | None) -> LLMError | None:
    return None


class Provider:
    name = "p"

    def __init__(self, coordinator: MockCoordinator) -> None:
        self.client = LazyClient(Client)
        self.calls = ModelCalls("p", ProviderSettings(), coordinator, nothing, None)


async def test_a_provider_is_mounted_with_its_channels_and_closed_in_the_end() -> None:
    coordinator = MockCoordinator()
    provider = Provider(coordinator)

    close = await mount_provider(coordinator, provider, "p:special")

    assert coordinator.get("providers") == {"p": provider}
    assert await coordinator.collect_contributions("session.cost") == []
    [announced] = await coordinator.collect_contributions("observability.events")
    assert announced == [*OWN_EVENTS, "p:special"]
    client = await provider.client.get()
    await close()
    assert client.closed


class Screen:
    """Takes the place of an app: what a user would see."""

    def __init__(self) -> None:
        self.display_system = self
        self.lines: list[str] = []
        self.capabilities: dict[str, str] = {}

    def register_capability(self, name: str, value: str) -> None:
        self.capabilities[name] = value

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source}: {message}")


@pytest.mark.parametrize(
    ("own", "variables", "expected"),
    [
        ("own", {"FIRST_KEY": "one"}, "own"),
        (" ", {"FIRST_KEY": " ", "SECOND_KEY": " two\n"}, "two"),
        (None, {"FIRST_KEY": "one", "SECOND_KEY": "two"}, "one"),
    ],
)
def test_a_key_is_the_configured_one_or_that_of_the_first_variable(
    monkeypatch: pytest.MonkeyPatch, own: str | None, variables: dict[str, str], expected: str
) -> None:
    for name in ("FIRST_KEY", "SECOND_KEY"):
        monkeypatch.setenv(name, variables.get(name, ""))
    settings = ProviderSettings(api_key=None if own is None else SecretStr(own))

    found = with_key(Screen(), settings, "p", "FIRST_KEY", "SECOND_KEY")

    assert found is not None
    assert found.api_key is not None
    assert found.api_key.get_secret_value() == expected


def test_without_a_key_the_user_learns_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRST_KEY", raising=False)
    screen = Screen()

    assert with_key(screen, ProviderSettings(), "p", "FIRST_KEY") is None
    assert screen.lines == ["provider-p: not mounted: set FIRST_KEY, or `api_key`"]
    assert screen.capabilities == {"provider-p.absence": "set FIRST_KEY, or `api_key`"}


def test_the_calls_of_a_response_are_found_in_either_place() -> None:
    block = ToolCallBlock(id="a", name="t", input={"x": 1})
    listed = ToolCall(id="b", name="t", arguments={})
    text = TextBlock(text="well")

    in_blocks = ChatResponse(content=[text, block])
    in_list = ChatResponse(content=[text, block], tool_calls=[listed])

    assert calls_in_response(in_blocks) == [ToolCall(id="a", name="t", arguments={"x": 1})]
    assert calls_in_response(in_list) == [listed]
    assert calls_in_response(ChatResponse(content=[block], tool_calls=[])) == []
