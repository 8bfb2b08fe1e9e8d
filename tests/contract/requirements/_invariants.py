"""The kernel's own invariants: what is promised beyond the public contracts."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "LAW-1": Requirement(
        "architecture 4 / Hook invariant",
        "`register` takes `timeout` and `on_error` by keyword, and without them behaves as before.",
    ),
    "LAW-2": Requirement(
        "architecture 4 / Hook invariant",
        'A guard registered with `on_error="deny"` that raises denies.',
    ),
    "LAW-3": Requirement(
        "architecture 4 / Hook invariant",
        "A guard that exceeds its timeout denies.",
    ),
    "LAW-4": Requirement(
        "architecture 4 / Hook invariant",
        "A guard that returns rubbish denies.",
    ),
    "LAW-5": Requirement(
        "architecture 4 / Hook invariant",
        "An observer that exceeds its timeout is logged and skipped.",
    ),
    "LAW-6": Requirement(
        "architecture 4 / Hook invariant",
        (
            "When one handler modifies and another injects or asks, the merged answer carries the "
            "modified data."
        ),
    ),
    "LAW-7": Requirement(
        "architecture 4 / Hook invariant; spec 4.2 #49",
        "User messages of all handlers survive the merge, whatever their action.",
        reading="Upstream drops them on continue and modify.",
    ),
    "LAW-8": Requirement(
        "architecture 4 / Hook invariant; spec 4.2 #41",
        (
            "`fork` makes a child with the merged config, its parent's id as lineage and an id of "
            "choice."
        ),
        reading="Upstream has no such method; the helper is offered, cleaning up children is not.",
    ),
    "LAW-9": Requirement(
        "architecture 4 / Hook invariant",
        "A child inherits its parent's guards, and cannot get around them.",
    ),
    "LAW-10": Requirement(
        "architecture 4 / Hook invariant",
        "A child inherits the interposers marked for it, and no others.",
    ),
    "LAW-11": Requirement(
        "architecture 4 / Hook invariant",
        "A child inherits approval and display systems and the source resolver.",
    ),
    "LAW-12": Requirement(
        "architecture 4 / Hook invariant; architecture 4 / Cancellation",
        (
            "Cancelling the parent reaches the child, and cancelling the child does not reach the "
            "parent."
        ),
    ),
    "LAW-13": Requirement(
        "architecture 4 / Interposition",
        "With no wrapper registered `get` returns what was mounted, by identity.",
    ),
    "LAW-14": Requirement(
        "architecture 4 / Interposition",
        (
            "A wrapped module is what `get` gives and what the orchestrator is handed, while "
            "`mount_points` stays raw."
        ),
    ),
    "LAW-15": Requirement(
        "architecture 4 / Interposition",
        "Wrappers nest by priority, apply to modules mounted later, and are gone after `remove`.",
    ),
    "LAW-16": Requirement(
        "architecture 4 / Nothing fails silently",
        "A module that does not load is in `session.status.modules` with its error.",
    ),
    "LAW-17": Requirement(
        "architecture 4 / Nothing fails silently",
        (
            "Failures are announced after all hooks are mounted, so that every observer sees every "
            "one."
        ),
    ),
    "LAW-18": Requirement(
        "architecture 4 / Nothing fails silently",
        "An entry with `required: true` that does not load stops initialisation.",
    ),
    "LAW-19": Requirement(
        "architecture 4 / Two-phase swap",
        "A swapped module takes over at the next turn and is announced as `module:swapped`.",
    ),
    "LAW-20": Requirement(
        "architecture 4 / Two-phase swap; architecture 4 / Nothing fails silently",
        (
            "A swap to a module that does not load raises, leaves the old one in place and is "
            "announced as `module:load_failed`."
        ),
    ),
    "LAW-21": Requirement(
        "architecture 4 / Two-phase swap",
        (
            "A swapped module that fails its first turn is rolled back and the session continues "
            "with the old one."
        ),
    ),
    "LAW-22": Requirement(
        "architecture 4 / Cancellation",
        "An immediate cancellation interrupts a hanging provider or tool call.",
    ),
    "LAW-23": Requirement(
        "architecture 4 / Cancellation",
        "After a cancellation the stored history is valid.",
    ),
    "LAW-24": Requirement(
        "architecture 4",
        "A module written to the seeds runs without noticing any of these additions.",
    ),
    "LAW-25": Requirement(
        "architecture 4 / Hook invariant",
        (
            "For any mix of actions, priorities, errors and timeouts, precedence holds, no edit is "
            "lost and guards fail closed."
        ),
    ),
    "LAW-26": Requirement(
        "own loop-basic",
        "Any sequence of messages becomes a valid request, and repairing it again changes nothing.",
    ),
    "LAW-28": Requirement(
        "architecture 4 / Nothing fails silently",
        "A hook that fails is announced to whoever listens to `hook:failed`.",
    ),
    "LAW-27": Requirement(
        "own context-simple",
        "For any history, compaction splits no pair, fits the budget and leaves the store alone.",
    ),
}
