"""A turn on a worker does not run without its guards either."""

from __future__ import annotations

import pytest

from amplifier_core.errors import SessionError
from amplifier_runtime.turns.claims import Claim
from amplifier_runtime.worker.worker import open_session


async def test_a_turn_whose_guard_does_not_mount_does_not_start() -> None:
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "hooks": [{"module": "hooks-approval", "config": {"defualt": "deny"}, "required": False}],
    }
    claim = Claim(
        turn_id="turn",
        tenant_id="tenant",
        session_id="session",
        parent_turn_id=None,
        ordinal=1,
        prompt="Hello",
        epoch=1,
        runs=1,
        signals=0,
        plan=plan,
        state={},
        messages=[],
        parent_id=None,
    )
    session = open_session(claim)

    with pytest.raises(SessionError, match="required hook 'hooks-approval'.*`default`"):
        await session.initialize()
    await session.cleanup()
