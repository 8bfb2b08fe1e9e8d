"""The judge: what the evidence shows to be wrong, and the figures of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from amplifier_journal.readings.state import state_of
from amplifier_kit.calls.budget_notices import WARNING
from amplifier_kit.history_repair import repair_history
from amplifier_runtime.limits.limits import NAME as LIMITS
from amplifier_runtime.log.log_rows import SUPERSEDED
from amplifier_runtime.turns.steps import DIVERGED, OUTCOME_UNKNOWN
from amplifier_runtime.turns.turn_run import RESUMED
from chaos.evidence import Event, Evidence
from chaos.script import CHILDREN, answer_to
from chaos.vendor import Ask

# What a turn says only because it was interrupted.
_OF_CRASHES = frozenset({RESUMED, SUPERSEDED, "messages"})
# What the log of a session has once, whichever turn was the first to need it.
_OF_SESSIONS = frozenset({"session.opened", "mounted", "part"})
_OUT_OF_BUDGET = "No further model call was made"
_UNITS = ("usd", "token", "call")
_CHILDREN_OF_A_TURN = 2


def judge(evidence: Evidence) -> list[str]:
    """Return everything that is wrong."""
    rules: tuple[Callable[[Evidence], Iterator[str]], ...] = (
        lambda found: iter(found.complaints),
        _every_turn_finished_once,
        _no_kept_call_was_repeated,
        _no_unsafe_effect_was_doubled,
        _every_reader_got_everything_once,
        _every_log_is_whole,
        _every_question_is_asked_then_answered,
        _every_history_is_valid,
        _every_log_adds_up_to_its_history,
        _no_budget_was_exceeded,
        _nothing_is_left,
    )
    return [wrong for rule in rules for wrong in rule(evidence)]


# --- turns ---------------------------------------------------------------------------------------


def _every_turn_finished_once(found: Evidence) -> Iterator[str]:
    wanted = {
        (session.session_id, f"turn-{turn.number}")
        for session in found.sessions
        for turn in session.turns
    }
    roots = [each for each in found.turns if each["parent_turn_id"] is None]
    there = Counter((each["session_id"], each["idempotency_key"]) for each in roots)
    yield from (f"turn {key} is missing" for key in wanted - set(there))
    yield from (f"turn {key} is there {count} times" for key, count in there.items() if count > 1)
    ends = Counter(each.turn_id for each in _all_events(found) if each.name == "turn.ended")
    children = Counter(each["parent_turn_id"] for each in found.turns)
    for turn in found.turns:
        turn_id = turn["turn_id"]
        if turn["state"] != "done":
            yield f"turn {turn_id} is {turn['state']} ({turn['reason']}): {turn['error']}"
        if ends[turn_id] != 1:
            yield f"turn {turn_id} has {ends[turn_id]} ends in its log"
        yield from _answered_as_it_should(found, turn, children[turn_id])


def _answered_as_it_should(found: Evidence, turn: dict[str, Any], children: int) -> Iterator[str]:
    number, kind = turn["prompt"].split(" ")
    script, answer = found.scripts.get(turn["turn_id"]), turn["answer"] or ""
    limit = next(
        each.call_limit for each in found.sessions if each.session_id == _root(turn["session_id"])
    )
    if limit is not None and (_OUT_OF_BUDGET in answer or "not told" in answer):
        return
    wanted = answer_to(number, kind) if script is None else script.answer
    if answer != wanted:
        yield f"turn {turn['turn_id']} answered {answer!r} instead of {wanted!r}"
    if children != (_CHILDREN_OF_A_TURN if kind == CHILDREN else 0):
        yield f"turn {turn['turn_id']} has {children} children"


# --- calls and effects ---------------------------------------------------------------------------


def repeated_calls(found: Evidence) -> tuple[list[Ask], list[Ask]]:
    """Return the calls that were made though their outcome was kept.

    First those of runs that could have read it; then those of runs that were given up before it
    was kept by another: a worker that was paused on its way to the vendor.
    """
    kept_at: dict[str, float] = {}
    epochs: dict[str, int] = {}
    for ask in found.asks:
        kept = found.kept.get((ask.turn_id, ask.key))
        if kept is not None and kept.at < kept_at.get(ask.identity, float("inf")):
            kept_at[ask.identity], epochs[ask.identity] = kept.at, kept.epoch
    late = [ask for ask in found.asks if ask.at > kept_at.get(ask.identity, float("inf"))]
    repeated = [ask for ask in late if ask.epoch >= epochs[ask.identity]]
    return repeated, [ask for ask in late if ask.epoch < epochs[ask.identity]]


def _no_kept_call_was_repeated(found: Evidence) -> Iterator[str]:
    repeated, by_lost_runs = repeated_calls(found)
    yield from (f"model call {ask} was repeated after its outcome was kept" for ask in repeated)
    # A worker that is paused between its last look at the fence and the vendor sends one request
    # late, whatever we do (docs/explain/durability.md). At the next one it sees the fence.
    late = Counter((ask.turn_id, ask.epoch) for ask in by_lost_runs)
    for (turn_id, epoch), count in late.items():
        if count > 1:
            yield f"run {epoch} of turn {turn_id} made {count} calls after it was given up"


def _no_unsafe_effect_was_doubled(found: Evidence) -> Iterator[str]:
    payments = Counter((turn, call) for name, turn, call, _ in found.effects if name == "pay")
    yield from (f"payment {key} was made {n} times" for key, n in payments.items() if n > 1)
    paid = {turn for turn, _ in payments}
    for turn in found.turns:
        answer = turn["answer"] or ""
        if _OUT_OF_BUDGET in answer:
            continue
        is_said, is_denied = answer.endswith(", paid"), answer.endswith(", denied")
        if is_said and turn["turn_id"] not in paid:
            yield f"turn {turn['turn_id']} says that it paid, and did not"
        if is_denied and turn["turn_id"] in paid:
            yield f"turn {turn['turn_id']} paid though that was denied"


# --- logs and histories --------------------------------------------------------------------------


def _every_reader_got_everything_once(found: Evidence) -> Iterator[str]:
    for session in found.sessions:
        view, log = found.views[session.session_id], found.logs.get(session.session_id, [])
        stored = [each.seq for each in log]
        if stored != list(range(1, len(stored) + 1)):
            yield f"the log of {session.session_id} is not contiguous: {stored}"
        # A reader leaves when it has read the end of the last turn.
        if view.seqs != stored[: len(view.seqs)] or len(view.seqs) < _last_end(log):
            yield f"a reader of {session.session_id} got {view.seqs} of {stored}"
        if len(set(view.shown)) != len(view.shown) or view.shown != sorted(view.shown):
            yield f"a reader of {session.session_id} was shown something twice"


def _last_end(log: list[Event]) -> int:
    return max((each.seq for each in log if each.name == "turn.ended"), default=0)


def _every_log_is_whole(found: Evidence) -> Iterator[str]:
    """Compare every turn with one of the same kind that nothing happened to."""
    loops = {each.session_id: each.loop for each in found.sessions}
    undisturbed: dict[tuple[str, ...], Counter[str]] = {}
    disturbed: list[tuple[tuple[str, ...], str, Counter[str]]] = []
    said = _said_by_turn(found)
    for turn in found.turns:
        if turn["answer"] is None:
            continue  # that it did not finish is said by another rule
        kind = _kind(turn, loops[_root(turn["session_id"])])
        names = said[turn["turn_id"]]
        if names[OUTCOME_UNKNOWN] or _OUT_OF_BUDGET in turn["answer"]:
            continue
        if turn["crashes"] == 0 and not names[SUPERSEDED]:
            undisturbed.setdefault(kind, _lasting(names))
        disturbed.append((kind, turn["turn_id"], _lasting(names)))
    for kind, turn_id, names in disturbed:
        if kind in undisturbed and names != undisturbed[kind]:
            more, less = names - undisturbed[kind], undisturbed[kind] - names
            yield f"the log of turn {turn_id} {kind} has too much {more} and too little {less}"


def _every_question_is_asked_then_answered(found: Evidence) -> Iterator[str]:
    """Look at each question, those of turns whose outcome became unknown too."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    for event in _all_events(found):
        if event.name in ("approval.asked", "approval"):
            said[event.data["approval_id"]].append(event.name)
    for approval_id, names in said.items():
        if names != ["approval.asked", "approval"]:
            yield f"the log says {names} of question {approval_id}"


def _kind(turn: dict[str, Any], loop: str) -> tuple[str, ...]:
    whose = "child" if turn["parent_turn_id"] else "root"
    return loop, whose, turn["prompt"].split(" ")[1], turn["answer"].split(" ")[-1]


def _said_by_turn(found: Evidence) -> defaultdict[str, Counter[str]]:
    said: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for event in _all_events(found):
        if not _is_about_a_budget(event):
            said[event.turn_id][event.name] += 1
    return said


def _is_about_a_budget(event: Event) -> bool:
    """Whether it warns of a budget: which turn of a tree uses the last of it is up to the storm."""
    return event.name == WARNING or (event.name == "display" and event.data["source"] == LIMITS)


def _lasting(names: Counter[str]) -> Counter[str]:
    left_out = _OF_CRASHES | _OF_SESSIONS
    return Counter({name: count for name, count in names.items() if name not in left_out})


def _all_events(found: Evidence) -> Iterator[Event]:
    for log in found.logs.values():
        yield from log


def _every_history_is_valid(found: Evidence) -> Iterator[str]:
    for session_id, messages in found.histories.items():
        _, repairs = repair_history(messages)
        if repairs:
            yield f"the history of {session_id} needs repair: {repairs}"
    for session in found.sessions:
        messages = found.histories.get(session.session_id, [])
        said = Counter(str(each["content"]) for each in messages if each["role"] == "user")
        wanted = Counter(turn.prompt for turn in session.turns)
        if said != wanted:
            yield f"the history of {session.session_id} has {said} instead of {wanted}"


def _every_log_adds_up_to_its_history(found: Evidence) -> Iterator[str]:
    for session_id, messages in found.histories.items():
        logged = state_of(found.logs.get(session_id, ())).messages
        if logged != messages:
            yield f"the log of {session_id} adds up to {logged} instead of {messages}"


# --- limits and leftovers ------------------------------------------------------------------------


def _no_budget_was_exceeded(found: Evidence) -> Iterator[str]:
    asked = Counter(_root(ask.session_id) for ask in found.asks)
    for account in found.accounts:
        name = account["account_id"]
        for unit in _UNITS:
            used, limit = account[f"{unit}_used"], account[f"{unit}_limit"]
            if limit is not None and used > limit:
                yield f"account {name} has used {used} of {limit} {unit}"
            if account[f"{unit}_held"]:
                yield f"account {name} still holds {account[f'{unit}_held']} {unit}"
        if (made := asked[name.removeprefix("tree:")]) > account["call_used"]:
            yield f"account {name} was charged {account['call_used']} calls, {made} were made"


def _nothing_is_left(found: Evidence) -> Iterator[str]:
    yield from (f"{count} {name} are left" for name, count in found.left.items() if count)


def _root(session_id: str) -> str:
    return session_id.partition("-")[0]


# --- figures -------------------------------------------------------------------------------------


def figures(found: Evidence) -> dict[str, Any]:
    """Return what a run is told by."""
    said: Counter[str] = Counter(each.name for each in _all_events(found))
    repeated, by_lost_runs = repeated_calls(found)
    payments = Counter((turn, call) for name, turn, call, _ in found.effects if name == "pay")
    spans = sorted(_take_overs(found))
    return {
        "turns": f"{sum(each['state'] == 'done' for each in found.turns)} of {len(found.turns)}"
        f" ({sum(each['parent_turn_id'] is not None for each in found.turns)} of them children)",
        "kills": found.damage.kills,
        "pauses": found.damage.pauses,
        "database restarts": ", ".join(found.damage.restarts),
        "workers that ended by themselves": found.damage.exits,
        "runs lost in a crash": sum(each["crashes"] for each in found.turns),
        "most runs of one turn": max(each["runs"] for each in found.turns),
        "take-overs": len(spans),
        "take-over p50, s": _quantile(spans, 0.50),
        "take-over p99, s": _quantile(spans, 0.99),
        "model calls": len(found.asks),
        "made again, outcome not kept": len(found.asks) - len({ask.identity for ask in found.asks}),
        "repeated though kept": len(repeated),
        "repeated by a paused worker": len(by_lost_runs),
        "loops diverged": said[DIVERGED],
        "unsafe effects": sum(payments.values()),
        "unsafe effects doubled": sum(count - 1 for count in payments.values()),
        "outcome unknown": said[OUTCOME_UNKNOWN],
        "paid late, after a check": _late(payments),
        "approvals": found.answers,
        "budgets": len(found.accounts),
        "events": sum(said.values()),
        "superseded": said[SUPERSEDED],
        "reader reconnects": sum(each.reconnects for each in found.views.values()),
    }


def _late(payments: Counter[tuple[str, str]]) -> int:
    """Count what a paused worker did after the model was told that nobody knows."""
    return sum(count - 1 for count in Counter(turn for turn, _ in payments).values())


def _take_overs(found: Evidence) -> Iterator[float]:
    """Yield how long each turn of a killed worker waited for its next run.

    A run that was lost before it could say anything is known by its loss.
    """
    runs: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for event in _all_events(found):
        if event.name == RESUMED:
            runs[event.turn_id].append((event.data["data"]["epoch"], event.at / 1000))
    for loss in found.damage.losses:
        runs[loss.turn_id].append((loss.epoch, loss.at))
    for loss in found.damage.losses:
        later = [at for epoch, at in runs[loss.turn_id] if epoch > loss.epoch]
        if later:
            yield min(later) - loss.at


def _quantile(spans: list[float], share: float) -> float | None:
    return round(spans[min(len(spans) - 1, int(len(spans) * share))], 2) if spans else None
