"""The code blocks of the document Contribution Channels, each by its first line."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "SZERO-41": Requirement(
        "S0:41 Registering contributors",
        "`register_contributor` takes channel, name and a plain or async callback.",
    ),
    "SZERO-57": Requirement(
        "S0:57 Collecting contributions",
        "`collect_contributions` takes a channel and is awaited for a list.",
    ),
    "SZERO-89": Requirement(
        "S0:89 Module registration",
        "A module registers its contributor while it mounts.",
    ),
    "SZERO-106": Requirement(
        "S0:106 Consumer collection",
        "A consumer flattens the lists it collected and skips contributions of another type.",
    ),
    "SZERO-140": Requirement(
        "S0:140 Example: Module Observability",
        "A module declares its events on `observability.events` with a plain lambda.",
    ),
    "SZERO-153": Requirement(
        "S0:153 Example: Module Observability",
        "A consumer registers a handler for every event that modules declared.",
    ),
}
