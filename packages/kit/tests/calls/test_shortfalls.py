"""What a call does otherwise than asked, told as one; and questions beside a call."""

from __future__ import annotations

import pytest

from amplifier_core.llm_errors import InvalidRequestError, LLMError, NetworkError
from amplifier_core.message_models import ChatRequest, ChatResponse, Degradation, Message, TextBlock
from amplifier_core.testing import EventRecorder
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.budget_notices import DEGRADED, joined
from amplifier_kit.calls.model_calls import OWN_EVENTS, Call, ModelCalls
from amplifier_kit.calls.settings import ProviderSettings

NO_STOP = Degradation(requested="stop", actual="none", reason="the API has none")
NO_TOP_P = Degradation(requested="top_p", actual="none", reason="the API has none")


class App:
    """What a provider sees of a session: hooks, and a display."""

    def __init__(self) -> None:
        self.hooks = EventRecorder()
        self.display_system = self
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source}: {message}")

    @property
    def admitted(self) -> list[str]:
        """What the events said was asked for."""
        return [data["requested"] for name, data in self.hooks.events if name == DEGRADED]


def translate(error: BaseException, model: str | None) -> LLMError | None:
    return InvalidRequestError(str(error), model=model) if isinstance(error, KeyError) else None


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def calls(app: App) -> ModelCalls:
    settings = ProviderSettings(max_retries=0)
    return ModelCalls("p", settings, app, translate, None)


def call(*shortfalls: Degradation) -> Call:
    request = ChatRequest(messages=[Message(role="user", content="hi")])
    return Call("m", request, {}, streaming=False, shortfalls=[*shortfalls])


async def answer(stream: BlockStream | None) -> ChatResponse:
    return ChatResponse(content=[TextBlock(text="ok")])


def test_several_shortfalls_are_told_as_one_without_repetition() -> None:
    assert joined([]) is None
    assert joined([NO_STOP]) == NO_STOP
    assert joined([NO_STOP, NO_TOP_P, NO_STOP]) == Degradation(
        requested="stop; top_p", actual="none", reason="the API has none"
    )


def test_every_provider_announces_its_shortfalls() -> None:
    assert DEGRADED in OWN_EVENTS


async def test_an_answer_that_falls_short_of_nothing_is_not_degraded(
    app: App, calls: ModelCalls
) -> None:
    assert (await calls.make(call(), answer)).degradation is None
    assert app.admitted == app.lines == []


async def test_a_shortfall_is_known_even_when_the_call_fails(app: App, calls: ModelCalls) -> None:
    async def fail(stream: BlockStream | None) -> ChatResponse:
        raise ConnectionResetError("gone")

    with pytest.raises(NetworkError):
        await calls.make(call(NO_STOP), fail)

    assert app.admitted == ["stop"]


def test_a_line_is_told_once(app: App, calls: ModelCalls) -> None:
    for line in ("one", "two", "one"):
        calls.tell_once(line)

    assert app.lines == ["provider-p: one", "provider-p: two"]


def test_questions_beside_a_call_fail_with_our_errors(calls: ModelCalls) -> None:
    with pytest.raises(InvalidRequestError) as of_vendor, calls.translated("m"):
        raise KeyError("no such thing")
    with pytest.raises(NetworkError) as of_transport, calls.translated():
        raise ConnectionResetError("gone")

    assert (of_vendor.value.model, of_transport.value.model) == ("m", None)
    assert isinstance(of_vendor.value.__cause__, KeyError)


@pytest.mark.parametrize("raised", [RuntimeError("a bug"), NetworkError("ours already")])
def test_what_needs_no_translation_leaves_unchanged(calls: ModelCalls, raised: Exception) -> None:
    with pytest.raises(type(raised)) as caught, calls.translated():
        raise raised

    assert caught.value is raised
    assert caught.value.__cause__ is None
