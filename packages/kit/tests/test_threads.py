"""What a thread opens has an owner or is closed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.threads import open_in_thread


class Resource:
    """Opens when it is told to."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.may_open = threading.Event()
        self.is_opening = threading.Event()
        self.was_closed = False
        self._is_broken = is_broken

    def open(self) -> Resource:
        self.is_opening.set()
        self.may_open.wait(60)
        if self._is_broken:
            raise OSError("broken")
        return self

    def close(self) -> None:
        self.was_closed = True


async def _being_opened(resource: Resource) -> asyncio.Task[Resource]:
    opening = asyncio.create_task(open_in_thread(resource.open))
    assert await wait_for(resource.is_opening.is_set, timeout=60)
    return opening


async def test_what_was_opened_is_returned() -> None:
    resource = Resource()
    opening = await _being_opened(resource)
    resource.may_open.set()

    assert await opening is resource
    assert not resource.was_closed


async def test_the_cancelled_caller_waits_until_it_is_closed() -> None:
    resource = Resource()
    opening = await _being_opened(resource)
    opening.cancel()
    done, _ = await asyncio.wait({opening}, timeout=0.05)
    assert not done

    resource.may_open.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert resource.was_closed


async def test_it_is_closed_for_a_caller_that_is_cancelled_again() -> None:
    resource = Resource()
    opening = await _being_opened(resource)
    while not opening.done():
        opening.cancel()
        await asyncio.sleep(0)

    resource.may_open.set()
    assert await wait_for(lambda: resource.was_closed, timeout=60)


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_what_cannot_be_opened_raises_unless_the_caller_is_cancelled(
    is_cancelled: bool,
) -> None:
    resource = Resource(is_broken=True)
    opening = await _being_opened(resource)
    if is_cancelled:
        opening.cancel()
        await asyncio.sleep(0)
    resource.may_open.set()

    with pytest.raises(asyncio.CancelledError if is_cancelled else OSError):
        await opening
    assert not resource.was_closed
