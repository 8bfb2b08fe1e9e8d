"""How modules contribute data that consumers collect on demand."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "CHAN-1": Requirement(
        "S0 Registering contributors; S2 register_contributor",
        (
            "A contributor is registered with channel, name and callback, positionally or by "
            "keyword, and nothing is returned."
        ),
    ),
    "CHAN-2": Requirement(
        "S0 Failure Handling; S2 collect_contributions",
        (
            "Contributions come back as a list in registration order, the callbacks run one after "
            "the other."
        ),
    ),
    "CHAN-3": Requirement(
        "S0 Collecting contributions",
        "Async callbacks and plain ones that return coroutines are awaited.",
    ),
    "CHAN-4": Requirement(
        "S0 Collecting contributions; S2 collect_contributions",
        "None is left out, while other empty values stay.",
    ),
    "CHAN-5": Requirement(
        "S0 Failure Handling; S2 collect_contributions",
        (
            "A callback that raises is logged with contributor and channel, and the other "
            "contributions stay intact."
        ),
    ),
    "CHAN-6": Requirement(
        "S0 Collecting contributions",
        "A channel without contributors gives an empty list.",
    ),
    "CHAN-7": Requirement(
        "S0 Failure Handling",
        "Two contributors may use the same name, and both are asked.",
    ),
    "CHAN-8": Requirement(
        "S0 Purpose; S2 Channel Semantics",
        "The kernel passes contributions through as they are, whatever their type.",
    ),
    "CHAN-9": Requirement(
        "S0 Purpose; S0 Guidance for Implementers",
        (
            "Callbacks run when a consumer collects, every time it does, and not when they are "
            "registered."
        ),
    ),
    "CHAN-10": Requirement(
        "S0 Example: Module Observability",
        "A module mounted later is part of the next collection.",
    ),
    "CHAN-11": Requirement(
        "spec 2.2.4; spec 4.2 #40",
        "A callback that raises CancelledError ends the collection with what was gathered so far.",
    ),
    "CHAN-12": Requirement(
        "spec 2.2.4",
        "`channels` maps each channel to its contributors' names and callbacks.",
    ),
    "CHAN-13": Requirement(
        "S0 Channel Naming",
        "Channel names are free text, dotted shared names and `bundle:purpose` private ones alike.",
    ),
    "CHAN-14": Requirement(
        "S1 Observability; S0 Lifecycle Pattern",
        "A module declares its events on `observability.events` while mounting.",
    ),
}
