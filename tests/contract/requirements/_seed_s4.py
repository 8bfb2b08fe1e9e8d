"""The code blocks of the document Module Source Protocol, each by its first line."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "SFOUR-32": Requirement(
        "S4:32 ModuleSource Protocol",
        (
            "A source resolves to the directory of a module, or raises ModuleNotFoundError or "
            "OSError, which reach the caller."
        ),
    ),
    "SFOUR-61": Requirement(
        "S4:61 ModuleSourceResolver Protocol",
        "A resolver is asked with the module id and an optional hint and returns a source.",
        reading="The kernel's own protocol names the hint twice; a resolver may take either.",
    ),
    "SFOUR-97": Requirement(
        "S4:97 Module Loader API",
        (
            "A loader reads the resolver from its coordinator when it loads, asks it with id and "
            "hint by position, and uses direct discovery when there is none."
        ),
        reading="The third parameter of `load` is `source_hint` in our loader (LOAD-12).",
    ),
    "SFOUR-142": Requirement(
        "S4:142 Mounting a Custom Resolver",
        "A resolver is mounted before the loader is made, without awaiting the call.",
        reading=(
            "S2 awaits `mount`: the call takes effect in both forms, and not awaiting it is no "
            "fault. `AmplifierModuleLoader` is `ModuleLoader`."
        ),
    ),
    "SFOUR-176": Requirement(
        "S4:176 ModuleNotFoundError",
        (
            "A module that nobody finds raises ModuleNotFoundError, with a message that names the "
            "module, what was tried and what to do."
        ),
    ),
    "SFOUR-190": Requirement(
        "S4:190 ModuleLoadError",
        (
            "A module that is not valid Python, misses a dependency or does not fulfil its "
            "protocol raises ModuleLoadError."
        ),
        reading="What breaks the contract of a module is a ModuleValidationError as well.",
    ),
    "SFOUR-209": Requirement(
        "S4 Fallback Behavior, line 209",
        (
            "`_load_direct` asks `_load_entry_point` and then `_load_filesystem`, and a subclass "
            "that overrides it is heard."
        ),
    ),
    "SFOUR-218": Requirement(
        "S4:218 Example: Custom Resolver",
        "A resolver of an application chooses by its overrides, by the hint, or by a default.",
    ),
}
