"""The approval system of a durable turn: returns the answer, or parks the turn until it comes."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import Any, Literal

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_journal.wrappers import question
from amplifier_runtime.database.clock import monotonic
from amplifier_runtime.database.database import Connection, Database, Row, execute, one_of
from amplifier_runtime.database.row_keys import new_id
from amplifier_runtime.database.store import to_json
from amplifier_runtime.signals.signals import APPROVALS, Approval
from amplifier_runtime.turns.claims import check_fence
from amplifier_runtime.turns.journal import asking_call_id, call_digest, scope
from amplifier_runtime.turns.turn_run import DRAIN, Gate, TurnRun

__all__ = ["APPROVAL", "DurableApprovals"]

# The reason of a turn that is parked until an answer comes.
APPROVAL = "approval"
# How long other calls of the same step have to ask or to begin before the turn is parked, so that
# a user sees all questions of a step together.
_TOGETHER_SECONDS = 0.05
# How often the answer is polled for inside of a running call, which cannot be parked.
_LOOK_SECONDS = 0.5


class DurableApprovals:
    """Asks for one run of a turn; implements the kernel's `ApprovalSystem`."""

    # Tells the recorder to leave approvals to this class, which knows their id and who answered.
    records_itself = True
    # A parked turn costs a row and no process, so that guards need not set a limit.
    waits_for_user = True
    # The run after the answer asks again, and finds the answer by the words of the question.
    asks_again = True

    def __init__(self, database: Database, run: TurnRun, gate: Gate) -> None:
        """`gate` is awaited before each question whose answer is not in the journal."""
        self._database = database
        self._run = run
        self._gate = gate
        self._occurrences: Counter[str] = Counter()
        self.has_asked = False

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return the answer, or park the turn until there is one.

        Raises:
            ApprovalTimeoutError: nobody answered in time.
        """
        run = self._run
        run.check()
        key = self._key(prompt, options)
        began = monotonic()
        asked = question(prompt, options, default)
        decided = run.journal.get(key)
        if decided is None:
            await self._gate()
            approval = await self._decision(key, asked, timeout)
            decided = {
                "approval_id": approval.approval_id,
                "state": approval.state,
                "answer": approval.answer,
                "answered_by": approval.answered_by,
            }
            await run.write(key, decided)
        is_late = decided["state"] == "expired"
        answer: str = decided["answer"] or "Deny"
        run.note(
            "approval",
            {
                **asked,
                "approval_id": decided["approval_id"],
                "decision": "timeout" if is_late else answer,
                "by": decided["answered_by"],
                "seconds": round(monotonic() - began, 6),
            },
        )
        if is_late:
            raise ApprovalTimeoutError(prompt)
        return answer

    def _key(self, prompt: str, options: list[str]) -> str:
        # With the id of the call: a hook may ask about different calls in the same words.
        digest = call_digest(prompt, options)
        key = f"approval:{scope()}{asking_call_id()}:{digest}"
        self._occurrences[key] += 1
        return f"{key}:{self._occurrences[key]}"

    async def _decision(self, key: str, asked: dict[str, Any], timeout: float) -> Approval:
        run = self._run
        is_inside = bool(scope())
        self.has_asked = True
        try:
            run.reach("before question")
            approval = await self._ask(key, asked, timeout)
            run.reach("after question")
            about = {"approval_id": approval.approval_id, "expires_at": approval.expires_at}
            run.note("approval.asked", {**asked, **about})
            if approval.state == "open" and not is_inside:
                await asyncio.sleep(_TOGETHER_SECONDS)
        except asyncio.CancelledError:
            # The caller takes this for a denial, which is in no journal. So the run stops before
            # anything that follows from it is journaled.
            run.stop(DRAIN)
            raise
        if approval.state == "open" and not is_inside:
            await run.suspend(APPROVAL)
        while approval.state == "open":
            await asyncio.sleep(_LOOK_SECONDS)
            run.check()
            approval = await self._ask(key, asked, timeout)
        return approval

    async def _ask(self, key: str, asked: dict[str, Any], timeout: float) -> Approval:
        """Insert the question, or return the one that an earlier run or look inserted."""
        claim = self._run.claim
        values = {
            "approval": new_id("approval"),
            "turn": claim.turn_id,
            "key": key,
            "prompt": to_json(asked["prompt"]),
            "options": to_json(asked["options"]),
            "lasts": int(timeout * 1000) if math.isfinite(timeout) else None,
        }

        def work(connection: Connection) -> Row | None:
            check_fence(connection, claim.session_id, claim.epoch)
            # The question of a turn that is being cancelled is withdrawn from the start.
            execute(
                connection,
                "INSERT INTO approvals (approval_id, tenant_id, session_id, turn_id, key, prompt, "
                "options, asked_at, expires_at, state) SELECT CAST(:approval AS TEXT), tenant_id, "
                "session_id, turn_id, CAST(:key AS TEXT), CAST(:prompt AS TEXT), "
                "CAST(:options AS TEXT), now_ms(), now_ms() + CAST(:lasts AS BIGINT), "
                "CASE WHEN cancel IS NULL THEN 'open' ELSE 'withdrawn' END "
                "FROM turns WHERE turn_id = :turn ON CONFLICT DO NOTHING",
                **values,
            )
            sql = f"{APPROVALS} WHERE a.turn_id = :turn AND a.key = :key"
            return one_of(connection, sql, turn=claim.turn_id, key=key)

        row = await self._database.run(work)
        assert row is not None
        return Approval.from_row(row)
