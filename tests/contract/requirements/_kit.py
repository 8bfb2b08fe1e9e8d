"""What module authors get to test and validate their modules."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "TEST-1": Requirement(
        "spec 1.14",
        (
            "MockCoordinator is a coordinator without arguments that has the published identity "
            "and config and records mounts and unmounts."
        ),
    ),
    "TEST-2": Requirement(
        "S1 Testing; spec 4.2 #5",
        "`TestCoordinator` is the same class and is not collected as a test.",
        reading="The seeds and upstream use different names; both are exported.",
    ),
    "TEST-3": Requirement(
        "S1 MockTool for Testing Orchestrators; spec 1.14; spec 4.2 #7",
        (
            "MockTool takes name, description, return_value or output, counts its calls and "
            "remembers its last input."
        ),
        reading="The seeds and upstream use different keywords; all are accepted.",
    ),
    "TEST-4": Requirement(
        "S1 MockContextManager for Testing; spec 1.14",
        "MockContextManager keeps its messages readable and answers the five context methods.",
    ),
    "TEST-5": Requirement(
        "S1 EventRecorder for Testing; spec 1.14",
        (
            "EventRecorder records events as pairs of name and data copy, filters and clears them, "
            "and can stand in for the hook registry."
        ),
    ),
    "TEST-6": Requirement(
        "S1 ScriptedOrchestrator for Testing; spec 1.14",
        (
            "ScriptedOrchestrator gives its responses in turn, then `DONE`, and stores the "
            "conversation."
        ),
    ),
    "TEST-7": Requirement(
        "S1 Testing; spec 1.14",
        "`create_test_coordinator` comes with the tools `echo` and `fail` and a context.",
    ),
    "TEST-8": Requirement(
        "spec 1.14",
        "`wait_for` tells whether a condition came true in time.",
    ),
    "TEST-9": Requirement(
        "S1 Orchestrator Contract / Testing; spec 4.2 #8",
        "MockProvider is a working provider double.",
        reading="The seed uses it without defining it; it is exported.",
    ),
    "TEST-10": Requirement(
        "S1 Testing",
        "The seeds' own test examples run with the kit.",
    ),
    "VALID-1": Requirement(
        "spec 1.16",
        (
            "A ValidationResult passes when no error check failed, lists errors and warnings, and "
            "sums up in one line."
        ),
    ),
    "VALID-2": Requirement(
        "spec 1.16; spec A.6",
        (
            "A module that cannot be imported, or has no package file, fails `module_importable` "
            "and nothing more is checked."
        ),
    ),
    "VALID-3": Requirement(
        "spec 1.16; spec A.6",
        "A module without a callable mount fails `mount_exists`.",
    ),
    "VALID-4": Requirement(
        "S1 Validation Checklist; spec 1.16",
        "A mount that is not async or takes fewer than two parameters fails `mount_signature`.",
    ),
    "VALID-5": Requirement(
        "spec 1.16; spec A.6",
        (
            "A ready callback that is not async or takes no coordinator fails "
            "`on_session_ready_async`, listed after the signature."
        ),
    ),
    "VALID-6": Requirement(
        "S1 Tool Contract / Validation Checklist; spec 1.16",
        (
            "A tool is checked for name, description, input schema and async execute, with the "
            "weaker ones as warnings."
        ),
    ),
    "VALID-7": Requirement(
        "S1 Provider Contract / Validation Checklist; spec 1.16",
        "A provider is checked for its five members.",
    ),
    "VALID-8": Requirement(
        "S1 Orchestrator Contract / Validation Checklist; spec 1.16",
        "An orchestrator is checked for an async execute with the five parameters.",
    ),
    "VALID-9": Requirement(
        "S1 Context Contract / Validation Checklist; spec 1.16",
        "A context is checked for its five async methods.",
    ),
    "VALID-10": Requirement(
        "S1 Hook Contract / Validation Checklist; spec 1.16; spec A.6",
        (
            "A hook's registered handlers are checked, and its cleanup function is never mistaken "
            "for one."
        ),
    ),
    "VALID-11": Requirement(
        "spec 1.16",
        (
            "A mount that brings nothing of its kind fails `protocol_compliance`, a returned "
            "instance passes, and a returned cleanup passes with a warning."
        ),
    ),
    "VALID-12": Requirement(
        "spec 1.16; spec A.6",
        (
            "Validators take a folder, a file or an importable name, and pass the config they are "
            "given to mount."
        ),
    ),
    "VALID-13": Requirement(
        "own author's kit; spec 7 #8",
        "The loader validates a module without mounting it a second time with its real config.",
    ),
    "VALID-14": Requirement(
        "spec A.6; spec 1.16",
        (
            "A valid mount plan passes, and each broken part is reported under its path with the "
            "published wording."
        ),
    ),
    "VALID-15": Requirement(
        "spec 4.2 #42; spec 4.3",
        (
            "The plan validator refuses the short form of orchestrator and context unless "
            "`allow_short_form=True`, and knows the top-level sections of that name."
        ),
        reading=(
            "The documented minimal plan is refused upstream; strict by default with an opt-in."
        ),
    ),
    "VALID-16": Requirement(
        "spec 1.16",
        "Unknown sections of a plan are warnings, and `format_errors` numbers the errors.",
    ),
    "VALID-17": Requirement(
        "spec 1.16",
        (
            "Importing a module for validation refuses to reuse another file's code under the same "
            "name."
        ),
    ),
    "VALID-18": Requirement(
        "S1 Quick Validation Command; spec 1.16",
        "Structural suites exist for the five kinds and fail a module that breaks its contract.",
    ),
    "VALID-19": Requirement(
        "spec 1.16",
        (
            "Behavioural suites exist for the five kinds with the published test names, and a good "
            "module passes them."
        ),
    ),
    "VALID-20": Requirement(
        "own author's kit",
        "Each behavioural suite has a fault suite beside it that names the rule a module breaks.",
    ),
    "VALID-21": Requirement(
        "spec 1.16; spec A.6",
        "Validators import and run without pytest.",
    ),
    "VALID-22": Requirement(
        "spec 1.16",
        "The schema helpers report wrong fields of tool and hook results as messages.",
    ),
    "VALID-23": Requirement(
        "S1 Validation; S1 Quick Validation Command; spec 1.17",
        (
            "`amplifier module validate` checks a module folder, laid out as the contracts show, "
            "as the type that `--type` names or that the module itself declares or mounts."
        ),
    ),
    "PLUG-1": Requirement(
        "spec 0; spec 1.15",
        "The pytest plugin is advertised as `amplifier_module` in the group `pytest11`.",
    ),
    "PLUG-2": Requirement(
        "spec 1.15",
        "The plugin adds the option `--module-path` and the marker `module_validation`.",
    ),
    "PLUG-3": Requirement(
        "spec 1.15",
        (
            "The plugin finds the module under test from the working folder, its parents or the "
            "paths given, and normalises the type word."
        ),
    ),
    "PLUG-4": Requirement(
        "spec 1.15",
        (
            "The fixtures mount the module under test and give its provider, tool, orchestrator, "
            "context or cleanup."
        ),
    ),
    "PLUG-5": Requirement(
        "spec 1.15",
        (
            "The fixtures skip without a module and fail with the published words when nothing was "
            "mounted."
        ),
    ),
    "PLUG-6": Requirement(
        "own author's kit; spec 7 #13",
        (
            "In an environment without a module the plugin changes nothing and loads no part of "
            "the kernel."
        ),
    ),
    "PLUG-7": Requirement(
        "own author's kit; spec 7 #13",
        "The plugin works with and without pytest-asyncio.",
    ),
    "PLUG-8": Requirement(
        "spec 1.15",
        "`coordinator` and `mock_deps` give fresh doubles to each test.",
    ),
}
