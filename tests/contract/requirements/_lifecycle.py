"""What happens between loading a module and tearing it down, and how cancelling works."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "LIFE-1": Requirement(
        "S1 Quick Start Pattern; S3 mount()",
        (
            "A module is a package whose async `mount(coordinator, config)` is called once per "
            "session."
        ),
    ),
    "LIFE-2": Requirement(
        "S3 mount()",
        "While a module mounts, modules of earlier kinds are there and later ones may not be.",
    ),
    "LIFE-3": Requirement(
        "S3 mount(); spec 3.3",
        "A mount that returns None or something that cannot be called registers no cleanup.",
    ),
    "LIFE-4": Requirement(
        "S3 mount()",
        (
            "A callable returned from mount is called without arguments at teardown and awaited "
            "when needed."
        ),
    ),
    "LIFE-5": Requirement(
        "S3 mount()",
        (
            "The module mounted last is cleaned up first, and one failing cleanup does not stop "
            "the others."
        ),
    ),
    "LIFE-6": Requirement(
        "S1 Provider Contract / mount(); S1 Quick Start Pattern; spec 4.2 #9",
        (
            "A module instance returned from mount is mounted when nothing of its kind was, and is "
            "never taken for a cleanup."
        ),
        reading="Upstream ignores it or calls it; the seed's automatic registration is taken.",
    ),
    "LIFE-7": Requirement(
        "S1 Provider Contract / mount(); spec 3.4",
        (
            "A mount may return None without mounting anything when it lacks what it needs, and "
            "the session continues."
        ),
    ),
    "LIFE-8": Requirement(
        "S3 on_session_ready()",
        (
            "The optional `on_session_ready(coordinator)` runs once per session after all modules "
            "are mounted, and its return value is ignored."
        ),
    ),
    "LIFE-9": Requirement(
        "S3 on_session_ready() Contract",
        (
            "The ready callbacks run one after the other in mount order: orchestrator, context, "
            "providers, tools, hooks."
        ),
    ),
    "LIFE-10": Requirement(
        "S3 on_session_ready() Contract",
        "Ready callbacks run before `session:fork` is emitted.",
    ),
    "LIFE-11": Requirement(
        "S3 on_session_ready() Contract; spec 4.2 #35",
        (
            "A ready callback that is not async is reported with a warning containing `must be "
            "async` and skipped."
        ),
        reading=(
            "Through a resolver upstream rejects the whole module; a warning is taken in both "
            "cases."
        ),
    ),
    "LIFE-12": Requirement(
        "S3 on_session_ready() Contract",
        (
            "A ready callback that raises is logged as a warning with its traceback and the others "
            "run."
        ),
    ),
    "LIFE-13": Requirement(
        "S3 on_session_ready() Contract; spec B",
        "A failing ready callback emits `module:on_session_ready_failed` with module id and error.",
    ),
    "LIFE-14": Requirement(
        "S3 on_session_ready() Contract",
        "A child session runs its own ready callbacks, and the parent's do not run again.",
    ),
    "LIFE-15": Requirement(
        "spec 2.3.3; spec A.3",
        "A module whose mount failed gets no ready callback.",
    ),
    "LIFE-16": Requirement(
        "S3 Cleanup from on_session_ready()",
        "A ready callback can register a cleanup on the coordinator.",
    ),
    "LIFE-17": Requirement(
        "S3 Canonical use case",
        "In its ready callback a module can collect what all others declared and subscribe to it.",
    ),
    "LIFE-18": Requirement(
        "S3 on_session_ready() Contract",
        "The kernel sets no time limit on ready callbacks.",
    ),
    "LIFE-19": Requirement(
        "S1 mount() Function; S2 Basic Module Mounting",
        "A module may both register its cleanup and return it.",
    ),
    "LIFE-20": Requirement(
        "S3 Polyglot note",
        "Modules in other languages take no part in the ready callbacks.",
        reading="They are refused by the loader, so that none of their code is called.",
    ),
    "CANC-1": Requirement(
        "S3 Behavioral Type Mapping; spec 2.5",
        (
            "The three states are none, graceful and immediate, readable as those words and equal "
            "to the enum's members."
        ),
        reading="Upstream's words and enum members compare unequal; here they are equal.",
    ),
    "CANC-2": Requirement(
        "spec 2.5",
        "A state only moves forward, from none to graceful to immediate or straight to immediate.",
    ),
    "CANC-3": Requirement(
        "spec 2.5",
        (
            "`request_graceful` tells True only from none, and `request_immediate` unless it is "
            "immediate already."
        ),
    ),
    "CANC-4": Requirement(
        "spec 2.5",
        "`request_cancellation` is a graceful request without a result.",
    ),
    "CANC-5": Requirement(
        "spec 2.5",
        "The three flags tell any, exactly graceful and exactly immediate cancellation.",
    ),
    "CANC-6": Requirement(
        "spec 2.5",
        (
            "`reset` goes back to none and forgets running tools, but keeps children and callbacks "
            "and does not reset the children."
        ),
    ),
    "CANC-7": Requirement(
        "spec 2.5",
        (
            "Running tools are tracked by call id and name, read as copies, and unknown ids are "
            "ignored."
        ),
    ),
    "CANC-8": Requirement(
        "spec 2.5",
        (
            "A child takes over its parent's state when registered and follows later requests, "
            "never the other way round."
        ),
    ),
    "CANC-9": Requirement(
        "spec 2.5",
        "An unregistered child no longer follows.",
    ),
    "CANC-10": Requirement(
        "spec 2.5",
        (
            "Callbacks, plain or async, run in registration order each time they are triggered, "
            "and not by themselves."
        ),
    ),
    "CANC-11": Requirement(
        "spec 2.5; spec A.1",
        (
            "A callback that raises, CancelledError included, does not stop the others, and "
            "KeyboardInterrupt or SystemExit is raised again at the end."
        ),
    ),
    "CANC-12": Requirement(
        "spec 2.5",
        "A coordinator owns one token for the life of its session.",
    ),
}
