"""What can be imported from the kernel, from where, and at what cost."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "API-1": Requirement(
        "spec 1.1",
        (
            "Every name of the published top-level list is importable from `amplifier_core` and is "
            "listed in `__all__`."
        ),
        reading=(
            "The compiled-engine aliases (`RUST_AVAILABLE`, `Rust*`) are left out; "
            "`ContextInjection` and `Pricing` are in."
        ),
    ),
    "API-2": Requirement(
        "spec 1.1",
        "`amplifier_core.__version__` is a string.",
    ),
    "API-3": Requirement(
        "spec 1.1",
        (
            "The submodules modules import by path are reachable as attributes of the package, "
            "`from amplifier_core import llm_errors` included."
        ),
    ),
    "API-4": Requirement(
        "S3 Behavioral Type Mapping; spec 4.2 #37; architecture 4",
        "A class imported from the top level and from its submodule is one and the same object.",
        reading=(
            "S3 keeps separate implementations under submodules; one implementation per class is "
            "taken."
        ),
    ),
    "API-5": Requirement(
        "architecture 4",
        "No `Rust*` name and no `_engine` module exist in the package.",
        reading="S3 and spec 1.1 list engine aliases; they are not kept.",
    ),
    "API-6": Requirement(
        "architecture 4; spec 1.1",
        (
            "Importing the kernel loads neither `unittest.mock`, `yaml`, `click`, `pytest` nor the "
            "testing kit."
        ),
    ),
    "API-7": Requirement(
        "architecture 4; spec 1.1",
        (
            "The testing doubles stay importable from the top level although they are loaded only "
            "when asked for."
        ),
    ),
    "API-8": Requirement(
        "architecture 4; spec 1.9",
        (
            "The old homes `amplifier_core.utils` and `amplifier_core.utils.retry` give the same "
            "objects as the real ones."
        ),
    ),
    "API-9": Requirement(
        "S1 Source of Truth; spec 1.10",
        (
            "The protocols and approval models live in `amplifier_core.interfaces`, which also "
            "offers the models its signatures use."
        ),
    ),
    "API-10": Requirement(
        "S1 Source of Truth; S3 Data Model Mapping",
        (
            "Data models, message models and streaming content live in `models`, `message_models` "
            "and `content_models`."
        ),
    ),
    "API-11": Requirement(
        "spec 1.11",
        (
            "`hooks`, `coordinator`, `approval`, `display`, `cancellation`, `module_sources` and "
            "`correlation` offer the names published modules import from them."
        ),
    ),
    "API-12": Requirement(
        "spec 4.3; S1 Protocol Definition",
        (
            "The protocols answer `isinstance` structurally, with `input_schema` not required of a "
            "tool."
        ),
        reading=(
            "Upstream removed run-time checks, the seeds demand them; `isinstance` works on "
            "structure."
        ),
    ),
    "API-13": Requirement(
        "spec 0",
        (
            "The distribution is `amplifier-core`, needs Python 3.11 or newer and depends on "
            "pydantic alone."
        ),
        reading=(
            "Upstream also requires click, pyyaml, tomli and typing-extensions; ours needs only "
            "pydantic."
        ),
    ),
}
