"""How a module id becomes a mount function, and where modules may come from."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "LOAD-1": Requirement(
        "S1 Loader Injection Contract; spec 2.4; spec 4.2 #22",
        (
            "A loader is built with an optional coordinator and search paths, and shows its "
            "coordinator as an attribute."
        ),
        reading="S4 names it AmplifierModuleLoader; the class is ModuleLoader.",
    ),
    "LOAD-2": Requirement(
        "S1 Entry Point Pattern; spec 2.4.2",
        (
            "`load` returns an async function of the coordinator that calls the module's mount "
            "with the config given, or an empty dict."
        ),
    ),
    "LOAD-3": Requirement(
        "spec 2.4.2; spec A.4",
        (
            "One module loaded twice gives two functions with their own configs, while its entry "
            "point is loaded once."
        ),
    ),
    "LOAD-4": Requirement(
        "S1 pyproject.toml; S4 Fallback Behavior; spec 2.4.3",
        (
            "Without a resolver a module is found by its id in the entry-point group "
            "`amplifier.modules`."
        ),
    ),
    "LOAD-5": Requirement(
        "S4 Fallback Behavior; spec 2.4.3",
        "Without an entry point the package `amplifier_module_<id>` on the import path is used.",
    ),
    "LOAD-6": Requirement(
        "S4 Fallback Behavior; spec 4.2 #26",
        "Search paths given to the loader are looked through when loading.",
        reading="Upstream ignores them when loading; the seed is taken.",
    ),
    "LOAD-7": Requirement(
        "S4 Error Contracts; spec 2.4.2; spec 4.2 #24",
        (
            "A module nobody knows raises an error that is both the source protocol's "
            "ModuleNotFoundError and a ValueError, naming the module and where was looked."
        ),
        reading="The seed and upstream name different classes; one error is both.",
    ),
    "LOAD-8": Requirement(
        "S4 Error Contracts; spec 4.2 #24",
        (
            "A module that is found but cannot be loaded raises an error that is both "
            "ModuleLoadError and ValueError."
        ),
        reading="Upstream never raises ModuleLoadError.",
    ),
    "LOAD-9": Requirement(
        "S4 Loader Injection Contract; spec 2.4.2",
        "A mounted resolver is asked for the module and its source's path is loaded.",
    ),
    "LOAD-10": Requirement(
        "spec 2.4.2",
        "A resolver that offers `async_resolve` is awaited instead.",
    ),
    "LOAD-11": Requirement(
        "S4 ModuleSourceResolver Protocol; spec 2.4.2; spec 4.2 #23",
        (
            "The resolver gets the plan's source as `source_hint` and `profile_hint`, whichever of "
            "them its signature accepts."
        ),
        reading="Upstream passes both always, which breaks resolvers written to the seed.",
    ),
    "LOAD-12": Requirement(
        "S4 Loader Injection Contract; spec 4.2 #22",
        "`load` accepts the hint also under the seed's name `profile_source`.",
    ),
    "LOAD-13": Requirement(
        "S4 Error Contracts; spec 2.4.2",
        (
            "When the resolver does not know a module direct discovery is tried, and if that fails "
            "too the resolver's own error is raised."
        ),
        reading="The seed propagates at once; the fallback comes first.",
    ),
    "LOAD-14": Requirement(
        "S4 ModuleSource Protocol; spec 2.4.2",
        "Other errors of a resolver or source reach the caller as they are.",
    ),
    "LOAD-15": Requirement(
        "spec 2.4.2; spec 2.4.5",
        (
            "The path of a resolved module is put on the import path once and taken off by the "
            "loader's cleanup."
        ),
    ),
    "LOAD-16": Requirement(
        "spec 2.4.2",
        (
            "A resolved module that breaks its contract raises ModuleValidationError naming the "
            "module and the failed checks, and is not mounted."
        ),
    ),
    "LOAD-17": Requirement(
        "spec 2.4.2; spec 2.4.4",
        (
            "A resolved path without a package raises ModuleValidationError, and the package is "
            "found at the path, under its module name, or as the first module folder."
        ),
    ),
    "LOAD-18": Requirement(
        "spec 2.4.2",
        "An unknown `__amplifier_module_type__` is refused with the list of valid ones.",
    ),
    "LOAD-19": Requirement(
        "spec 0; spec 1.13",
        "The six module types map to their mount points in `TYPE_TO_MOUNT_POINT`.",
    ),
    "LOAD-20": Requirement(
        "spec 1.13",
        "Failure reasons are a fixed set of codes, and every loading error maps to one of them.",
    ),
    "LOAD-21": Requirement(
        "spec 2.4.1",
        (
            "`discover` lists entry points, then folders named `amplifier-module-<id>` under the "
            "search paths, or under `AMPLIFIER_MODULES` when there are none."
        ),
    ),
    "LOAD-22": Requirement(
        "spec 2.4.1",
        (
            "A discovered module is described by id, title-cased name, version, type, mount point "
            "and description."
        ),
    ),
    "LOAD-23": Requirement(
        "spec 2.4.1",
        "A module's type is the one it declares, else guessed from its id, else tool.",
    ),
    "LOAD-24": Requirement(
        "spec 2.4.1",
        "A search path that does not exist is reported with a warning and skipped.",
    ),
    "LOAD-25": Requirement(
        "spec 2.4.3; spec A.4",
        "Entry points are looked up when a module is loaded, not before.",
    ),
    "LOAD-26": Requirement(
        "spec 2.4.2",
        "Every failed load is logged as `Failed to load module` with the id.",
    ),
    "LOAD-27": Requirement(
        "spec 2.4.5",
        (
            "`initialize` of the loader awaits a mount function and returns its cleanup, and re-"
            "raises after logging."
        ),
    ),
    "LOAD-28": Requirement(
        "spec 2.4.5",
        "The queue of ready callbacks can be read as a copy, extended and cleared.",
    ),
    "LOAD-29": Requirement(
        "spec 2.4.2; spec 2.4.3",
        (
            "The mount function carries the module's id and ready callback, and loading alone "
            "queues nothing."
        ),
    ),
    "LOAD-30": Requirement(
        "spec 6; S3 Polyglot note",
        (
            "A module whose `amplifier.toml` names another transport than Python is refused with a "
            "ModuleLoadError that says so."
        ),
    ),
    "LOAD-31": Requirement(
        "spec 2.4.2",
        (
            "A module id that resolves to another path than the one already loaded is refused "
            "rather than answered with the old code."
        ),
    ),
    "LOAD-32": Requirement(
        "spec 6",
        "WASM, gRPC and side-car modules are run through adapters.",
        reading=(
            "The specification finds that a Python kernel needs no adapter: a module that names "
            "one of these transports is refused in plain words."
        ),
    ),
    "LOAD-33": Requirement(
        "S2 loader; spec 2.4.2",
        "A module can load and mount another one at run time through `coordinator.loader`.",
    ),
    "LOAD-34": Requirement(
        "S4 ModuleLoadError",
        (
            "A module whose object lacks a member of its protocol is not mounted, and is reported "
            "as a ModuleLoadError that names the member."
        ),
    ),
    "LOAD-35": Requirement(
        "S4 Module Loader API; S4 Fallback Behavior",
        (
            "A resolver gets the hint by the name its signature has, else as the second argument; "
            "a coordinator without that mount point means no resolver."
        ),
    ),
    "LOAD-36": Requirement(
        "S4 Fallback Behavior",
        "Without a resolver, `load` returns what `_load_direct` returns, overridden or not.",
    ),
    "SRC-1": Requirement(
        "S4 Kernel Contracts; spec 1.11; spec 4.2 #25",
        (
            "`ModuleSource` can be subclassed and any object with a fitting `resolve` is accepted "
            "in its place."
        ),
        reading="The seed declares a protocol, upstream an abstract class; both uses work.",
    ),
    "SRC-2": Requirement(
        "S4 Kernel Contracts",
        "`ModuleSourceResolver` is a structural protocol with `resolve`.",
    ),
    "SRC-3": Requirement(
        "S4 Error Contracts; spec 1.11",
        (
            "The module source errors are ordinary exceptions that resolvers can raise with a text "
            "of their own."
        ),
    ),
    "SRC-4": Requirement(
        "S4 Mounting a Custom Resolver",
        (
            "A resolver is injected through the mount point `module-source-resolver` before the "
            "loader is used."
        ),
    ),
    "SRC-5": Requirement(
        "S4 Purpose; S4 Fallback Behavior",
        "Without any resolver the kernel works by entry points alone.",
    ),
    "SRC-6": Requirement(
        "S4 Kernel Responsibilities; spec 3.1",
        "A source hint of any type reaches the resolver unread.",
    ),
    "SRC-7": Requirement(
        "spec 1.11; spec A.4",
        "`FileSystemModuleSource` gives copies of its paths and of its mention mappings.",
    ),
    "SRC-8": Requirement(
        "S4 Kernel Invariants",
        (
            "A resolver that returns something without `resolve` is reported as an error of that "
            "module."
        ),
    ),
    "SRC-9": Requirement(
        "S4 Kernel Responsibilities",
        "The kernel defines no file, git or package sources of its own.",
    ),
    "SRC-10": Requirement(
        "S4 Kernel Responsibilities",
        "Sources for local folders, git repositories and packages resolve to importable paths.",
        reading="The sources of the foundation do; the kernel has none (SRC-9).",
    ),
}
