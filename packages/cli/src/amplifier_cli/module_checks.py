"""Check one module: the kernel's validators, and its test suites in a separate process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_cli.failures import CommandError
from amplifier_cli.installed import FoundModule
from amplifier_core.interfaces import ContextManager, Orchestrator, Provider, Tool
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.base import ModuleValidator, ValidationCheck
from amplifier_foundation import paths
from amplifier_foundation.installation import install_command
from amplifier_foundation.sources.errors import ModuleSourceError
from amplifier_foundation.sources.libraries import check_kernel, required_by, required_in
from amplifier_foundation.sources.package import InstalledModules
from amplifier_foundation.sources.uninstalled import compile_apart
from amplifier_sandbox.visible_text import json_text

_MOUNT_POINTS = {
    "orchestrator": "orchestrator",
    "context": "context",
    "providers": "provider",
    "tools": "tool",
}
_PROTOCOLS: dict[str, Any] = {
    "provider": Provider,
    "tool": Tool,
    "orchestrator": Orchestrator,
    "context": ContextManager,
}


class Trial(NamedTuple):
    """The types of what a package mounted, the most likely first, or why it failed to mount."""

    types: tuple[str, ...]
    fault: str | None


async def try_mounting(
    package: Path, entry_point: str | None = None, config: dict[str, Any] | None = None
) -> Trial:
    """Mount a package without credentials or network, and return what it mounted."""
    mounting = _Mounting()
    result = await mounting.validate(package, entry_point, config)
    faults = (each.message for each in result.checks if not each.passed)
    return Trial(mounting.types, next(faults, None))


class _Mounting(ModuleValidator):
    """Mounts as every validator does, and inspects all mount points instead of one."""

    module_type = "hook"
    protocol_name = "HookHandler"
    thing = "module"

    def __init__(self) -> None:
        self.types: tuple[str, ...] = ()

    def check_mounted(
        self, coordinator: MockCoordinator, returned: Any
    ) -> Iterator[ValidationCheck]:
        """Record the types; yields no failed checks."""
        filled = [
            kind
            for point, kind in _MOUNT_POINTS.items()
            if coordinator.get(point) not in (None, {})
        ]
        fitting = [kind for kind, each in _PROTOCOLS.items() if isinstance(returned, each)]
        # Last: a module that mounts something may register hooks as well.
        if any(coordinator.hooks.list_handlers().values()):
            hooks = ["hook"]
        else:
            hooks = []
        self.types = (*filled, *fitting, *hooks)
        yield from ()


TYPES = ("tool", "provider", "hook", "orchestrator", "context")

_PLACEHOLDER = "placeholder-for-validation"
_NO_PYTEST = "pytest is not installed here, so this was not looked at."


class Check(NamedTuple):
    """The result of one check; `level` is ok, info, warning or error."""

    name: str
    level: str
    message: str


def completed(found: FoundModule, where: str) -> FoundModule:
    """Return the module with its type, and with the configuration to check it with.

    An undeclared type is inferred from what the module mounts. A provider that mounts nothing
    without a key, as its contract recommends, is given a placeholder.

    Raises:
        CommandError: the type cannot be inferred.
    """
    if found.type not in (None, "provider"):
        return found
    trial = _try(found)
    # Only if it mounts nothing: a provider with strict settings may refuse a key it does not know.
    if not trial.types and trial.fault is None and found.config is None:
        with_key = found._replace(config={"api_key": _PLACEHOLDER})
        trial = _try(with_key)
        if trial.types:
            found = with_key
    if found.type is not None:
        return found
    if not trial.types:
        unclear = "Its id, its package and its mount() do not say it"
        raise CommandError(
            f"The type of `{found.module_id}` is not known.",
            why=f"{trial.fault or unclear}. Types: {', '.join(TYPES)}.",
            fix=f"amplifier module validate {where} --type tool",
        )
    return found._replace(type=trial.types[0])


def _try(found: FoundModule) -> Trial:
    # Compiled files in a project would be changes of it, which end its trust.
    compile_apart(paths.home())
    return asyncio.run(try_mounting(found.package, found.entry_point, found.config))


def structure(found: FoundModule) -> list[Check]:
    """Import the module, mount it on a mock coordinator, and check what it mounted."""
    from amplifier_core import validation  # noqa: PLC0415 - loads the kernel's test kit

    validators: dict[str | None, Any] = {
        "provider": validation.ProviderValidator,
        "tool": validation.ToolValidator,
        "hook": validation.HookValidator,
        "orchestrator": validation.OrchestratorValidator,
        "context": validation.ContextValidator,
    }
    if found.type not in validators:
        return [Check("type", "warning", f"Modules of the type {found.type} are not checked.")]
    compile_apart(paths.home())
    look = validators[found.type]()
    result = asyncio.run(look.validate(found.package, found.entry_point, found.config))
    checks = [
        Check(each.name, "ok" if each.passed else each.severity, each.message)
        for each in result.checks
    ]
    package = sys.modules.get(found.package.name)
    declared = getattr(package, "__amplifier_module_type__", found.type)
    if declared != found.type:
        message = (
            f"The package declares `__amplifier_module_type__ = {declared!r}`, "
            f"and is checked as {found.type}"
        )
        checks.append(Check("module_type", "error", message))
    else:
        checks += _type_by_mounting(found)
    return [*checks, *_kernel(found)]


def _type_by_mounting(found: FoundModule) -> list[Check]:
    """Fail a module that mounts something, but nothing of its type."""
    types = _try(found).types
    if not types or found.type in types:
        return []
    message = f"It mounts a {types[0]}: check it with --type {types[0]}"
    return [Check("module_type", "error", message)]


def _kernel(found: FoundModule) -> list[Check]:
    """Fail a module that this kernel would refuse to load."""
    try:
        check_kernel(found.module_id, _required_kernel(found))
    except ModuleSourceError as error:
        return [Check("kernel", "error", f"{error.message} {error.why}")]
    return []


def _required_kernel(found: FoundModule) -> str | None:
    if (found.folder / "pyproject.toml").is_file():
        return required_in(found.folder)
    installed = InstalledModules().find(found.module_id)
    if installed is None:
        return None
    return required_by(installed.requirements)


def behaviour(found: FoundModule) -> list[Check]:
    """Run the kernel's suite for modules of this type against the module."""
    if find_spec("pytest") is None:
        return [Check("behaviour", "warning", _NO_PYTEST)]
    from amplifier_core.validation import behavioral  # noqa: PLC0415 - needs pytest

    suite = Path(str(behavioral.__file__)).parent / f"{found.type}.py"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # Otherwise pytest would use the settings and the conftest.py of a project that contains
        # the environment, such as our own clone.
        settings = Path(folder) / "pytest.ini"
        settings.write_text("[pytest]\n", encoding="utf-8")
        process = _pytest(
            found,
            str(suite),
            f"--module-path={found.package}",
            f"--module-type={found.type}",
            *([f"--module-entry-point={found.entry_point}"] if found.entry_point else ()),
            *([f"--module-config={json_text(found.config)}"] if found.config else ()),
            f"--rootdir={suite.parent}",
            # No conftest.py above the suite is loaded.
            f"--confcutdir={suite.parent}",
            f"--config-file={settings}",
            f"--junitxml={report}",
            "--override-ini=python_classes=*Tests",
            cwd=folder,
            capture=True,
        )
        if not report.exists():
            return [Check("behaviour", "error", process.stdout.strip() or process.stderr.strip())]
        return _read_report(report)


def run_tests(found: FoundModule, arguments: tuple[str, ...]) -> int:
    """Run the module's own tests, in its folder, and return pytest's exit code."""
    if find_spec("pytest") is None:
        raise CommandError(_NO_PYTEST, fix=install_command("pytest"))
    return _pytest(found, *arguments, cwd=found.folder, capture=False).returncode


def _pytest(
    found: FoundModule, *arguments: str, cwd: str | Path, capture: bool
) -> subprocess.CompletedProcess[str]:
    # The package need not be installed: its folder is put on the path of the other process.
    path = os.pathsep.join(filter(None, (str(found.package.parent), os.environ.get("PYTHONPATH"))))
    scope = ["--override-ini=asyncio_default_fixture_loop_scope=function"]
    options = ["-q", "-p", "no:cacheprovider", *(scope if find_spec("pytest_asyncio") else ())]
    return subprocess.run(
        # -B: compiled files in a project would be changes of it, which end its trust.
        [sys.executable, "-B", "-m", "pytest", *options, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=capture,
        text=True,
        check=False,
    )


def _read_report(report: Path) -> list[Check]:
    from xml.etree import ElementTree  # noqa: PLC0415 - for this report alone

    checks: list[Check] = []
    for case in ElementTree.parse(report).iter("testcase"):
        name = str(case.get("name")).removeprefix("test_").replace("_", " ")
        outcome = next((each for each in case if each.tag in ("failure", "error", "skipped")), None)
        if outcome is None:
            checks.append(Check(name, "ok", ""))
        else:
            level = "info" if outcome.tag == "skipped" else "error"
            checks.append(Check(name, level, str(outcome.get("message", ""))))
    return checks
