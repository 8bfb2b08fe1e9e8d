"""The pytest plugin: mounts the module under test and passes it to the module's tests.

pytest loads this file in every environment where the kernel is installed, so it imports nothing
but pytest, and the test doubles only when a fixture is really used. Other environments pay only
for the import of the package `amplifier_core` itself, which comes before any of its files.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from asyncio import Runner

    from amplifier_core.testing import (
        EventRecorder,
        MockContextManager,
        MockCoordinator,
        MockProvider,
        MockTool,
    )

_TYPES = {
    "context": "context",
    "hook": "hook",
    "hooks": "hook",
    "loop": "orchestrator",
    "orchestrator": "orchestrator",
    "provider": "provider",
    "resolver": "resolver",
    "tool": "tool",
}
_FOLDER = re.compile(r"amplifier-module-([a-z]+)-")
_PACKAGE = re.compile(r"(?:amplifier_module_)?([a-z]+)_")
_INSTALLED = ("site-packages", "dist-packages")
_SUITES = f"{Path(__file__).parent / 'validation'}{os.sep}"

# The property of a test that says which of two copies it has tested; it survives pytest-xdist.
_TESTED = "amplifier_tested_copy"
_found_key = pytest.StashKey["Path | None"]()


# --- pytest's hooks ------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--module-path`, and those for what the name of a module does not say."""
    group = parser.getgroup("amplifier modules")
    group.addoption(
        "--module-path", metavar="PATH", help="the module under test: its package or its project"
    )
    group.addoption("--module-type", metavar="TYPE", help="its type, if its name does not say it")
    group.addoption(
        "--module-entry-point", metavar="PACKAGE:FUNCTION", help="what mounts it, if not `mount`"
    )
    group.addoption("--module-config", metavar="JSON", help="what it is mounted with")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker and choose what runs coroutines: pytest-asyncio, or this plugin."""
    config.addinivalue_line(
        "markers", "module_validation: a test of the kernel's suites that a module inherits"
    )
    asyncio_plugin = sys.modules.get("pytest_asyncio.plugin")
    if asyncio_plugin is not None and config.pluginmanager.is_registered(asyncio_plugin):
        fixtures = _fixtures_for_pytest_asyncio()
    else:
        config.addinivalue_line("markers", "asyncio: a test that runs in an event loop")
        config.pluginmanager.register(_CoroutineRunner(), "amplifier_module_runner")
        fixtures = _fixtures_for_own_loop()
    config.pluginmanager.register(fixtures, "amplifier_module_fixtures")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the kernel's own suites if there is no module of their type to test."""
    for item in items:
        if not str(item.path).startswith(_SUITES):
            continue
        found = find_module(config, item.path)
        kind = None if found is None else _type_under_test(config, found)
        if kind is None:
            item.add_marker(pytest.mark.skip(reason="no module under test"))
        elif item.path.stem != kind:
            item.add_marker(pytest.mark.skip(reason=f"the module under test is a {kind}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which copy was tested if a module is both in the project and installed."""
    reports = [each for group in terminalreporter.stats.values() for each in group]
    told = [each for report in reports for each in getattr(report, "user_properties", ())]
    for line in sorted({str(value) for name, value in told if name == _TESTED}):
        terminalreporter.write_line(line)


# --- which module is under test ------------------------------------------------------------------


def type_of(package: Path) -> str | None:
    """Return the type of the module in `package` by its name, else by that of its folder."""
    for match in (_PACKAGE.match(package.name), _FOLDER.match(package.parent.name)):
        if match is not None and match[1] in _TYPES:
            return _TYPES[match[1]]
    return None


def _type_under_test(config: pytest.Config, package: Path) -> str | None:
    return config.getoption("--module-type") or type_of(package)


def find_module(config: pytest.Config, test_file: Path) -> Path | None:
    """Return the package under test.

    It is the one that the command line names, else the one that the test file belongs to, else the
    one that pytest was started in or for.
    """
    named = config.getoption("--module-path")
    if named:
        path = Path(named).resolve()
        if (path / "__init__.py").is_file():
            return path
        # Named by convention, or like the project, as in the module contracts.
        patterns = ("amplifier_module_*", path.name.replace("-", "_"))
        packages = [each for pattern in patterns for each in _packages_in(path, pattern)]
        return packages[0] if packages else path
    around = _module_around(test_file)
    if around is not None:
        return around
    if _found_key not in config.stash:
        config.stash[_found_key] = next(_modules_of_run(config), None)
    return config.stash[_found_key]


def _module_around(test_file: Path) -> Path | None:
    """Return the package of the project that the test file is in.

    If a project has several modules as packages inside one package, it is the one with the name of
    the test file's folder.
    """
    in_project = True
    passed: list[str] = []
    for folder in test_file.resolve().parents:
        is_module = folder.name.startswith("amplifier-module-")
        if is_module or in_project:
            pattern = "amplifier_*" if is_module else "amplifier_module_*"
            package = next(_packages_in(folder, pattern), None)
            if package is not None:
                inner = (package / name for name in passed)
                return next((each for each in inner if (each / "__init__.py").is_file()), package)
        passed.append(folder.name)
        in_project = in_project and not (folder / "pyproject.toml").is_file()
    return None


def _modules_of_run(config: pytest.Config) -> Iterator[Path]:
    """Yield the packages of the working folder, the root and the given paths."""
    given = (config.invocation_params.dir / arg.partition("::")[0] for arg in config.args)
    starts = (config.invocation_params.dir, config.rootpath, *given)
    for start in (path if path.is_dir() else path.parent for path in starts if path.exists()):
        for folder in (start.resolve(), *start.resolve().parents):
            match = _FOLDER.match(folder.name)
            if match is not None:
                yield from _packages_in(folder, f"amplifier_module_{match[1]}_*")
        yield from (p for p in _packages_in(start.resolve(), "amplifier_module_*") if type_of(p))


def _packages_in(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the packages directly in a project folder or in its `src`."""
    if folder.name in _INSTALLED:
        return
    for root in (folder, folder / "src"):
        for child in sorted(root.glob(pattern)):
            if (child / "__init__.py").is_file():
                yield child


# --- fixtures ------------------------------------------------------------------------------------


@pytest.fixture
def module_path(request: pytest.FixtureRequest) -> Path | None:
    """The package of the module under test, or None.

    If the module of the project is also installed, and the tests' own imports find that copy, as
    in an environment of tox, it is the installed copy.
    """
    found = find_module(request.config, request.path)
    if found is None or request.config.getoption("--module-path"):
        return found
    from amplifier_core.validation.base import importable_copy  # noqa: PLC0415 - see first lines

    copy = importable_copy(found)
    # A copy elsewhere is a mistake, which the import reports.
    if not set(_INSTALLED).intersection(copy.parts):
        return found
    told = f"Tested the installed copy {copy}, not {found}: `pip install -e` tests the source."
    request.node.user_properties.append((_TESTED, told))
    return copy


@pytest.fixture
def module_type(request: pytest.FixtureRequest, module_path: Path | None) -> str | None:
    """The type of the module under test: provider, tool, hook, orchestrator, context."""
    if module_path is None:
        return None
    # By the project first: the folder around an installed copy says nothing.
    package = find_module(request.config, request.path) or module_path
    return _type_under_test(request.config, package)


@pytest.fixture
def is_module_context(module_path: Path | None) -> bool:
    """Whether there is a module under test."""
    return module_path is not None


@pytest.fixture
def coordinator() -> MockCoordinator:
    """A coordinator of its own for every test."""
    from amplifier_core.testing import MockCoordinator  # noqa: PLC0415 - see the file's first lines

    return MockCoordinator()


@pytest.fixture
def mock_deps() -> tuple[
    MockContextManager, dict[str, MockProvider], dict[str, MockTool], EventRecorder
]:
    """The arguments of an orchestrator: a memory, a provider, a tool and a recorder of events."""
    from amplifier_core import testing  # noqa: PLC0415 - see the file's first lines

    return (
        testing.MockContextManager(),
        {"default": testing.MockProvider()},
        {"test_tool": testing.MockTool("test_tool")},
        testing.EventRecorder(),
    )


async def _mount_under_test(
    mount_point: str, thing: str, module_path: Path | None, coordinator: Any, options: pytest.Config
) -> AsyncGenerator[Any]:
    """Mount the module under test, yield what it mounted, and clean up after the test."""
    import json  # noqa: PLC0415 - see the file's first lines

    from amplifier_core._discovery import find_mount  # noqa: PLC0415 - see the file's first lines
    from amplifier_core.validation.base import import_module_from_path  # noqa: PLC0415 - as above
    from amplifier_core.validation.rehearsal import mounted  # noqa: PLC0415 - see the first lines

    if module_path is None:
        pytest.skip("no module under test: run in its folder, or pass --module-path")
    package = import_module_from_path(module_path)
    _, mount = find_mount(package, options.getoption("--module-entry-point"))
    config = json.loads(options.getoption("--module-config") or "{}")
    async with mounted(mount, coordinator, mount_point, config) as returned:
        if mount_point == "hooks":
            yield returned if callable(returned) else None
            return
        slot: Any = coordinator.mount_points[mount_point]
        instance = (
            next(iter(slot.values()), None) if mount_point in ("providers", "tools") else slot
        )
        if instance is None:
            pytest.fail(f"No {thing} was mounted")
        yield instance


# The fixture, its mount point, and the name for error messages.
_MODULE_FIXTURES = {
    "provider_module": ("providers", "provider"),
    "tool_module": ("tools", "tool"),
    "orchestrator_module": ("orchestrator", "orchestrator"),
    "context_module": ("context", "context manager"),
    "hook_cleanup": ("hooks", "hook"),
}


def _fixtures_for_pytest_asyncio() -> ModuleType:
    import pytest_asyncio  # noqa: PLC0415 - it may not be installed; here it is loaded already

    def make(name: str, mount_point: str, thing: str) -> Any:
        async def mounted_module(
            module_path: Path | None, coordinator: Any, request: pytest.FixtureRequest
        ) -> Any:
            async for given in _mount_under_test(
                mount_point, thing, module_path, coordinator, request.config
            ):
                yield given

        return pytest_asyncio.fixture(mounted_module, name=name)

    return _holder(make)


def _fixtures_for_own_loop() -> ModuleType:
    def make(name: str, mount_point: str, thing: str) -> Any:
        def mounted_module(
            module_path: Path | None,
            coordinator: Any,
            amplifier_runner: Runner,
            request: pytest.FixtureRequest,
        ) -> Generator[Any]:
            given = _mount_under_test(mount_point, thing, module_path, coordinator, request.config)
            yield amplifier_runner.run(_next(given))
            amplifier_runner.run(_next(given))

        return pytest.fixture(mounted_module, name=name)

    return _holder(make)


async def _next(given: AsyncGenerator[Any]) -> Any:
    return await anext(given, None)


def _holder(make: Callable[[str, str, str], Any]) -> ModuleType:
    """Return the fixtures as a module, which pytest can register as a plugin."""
    holder = ModuleType("amplifier_module_fixtures")
    for name, (mount_point, thing) in _MODULE_FIXTURES.items():
        setattr(holder, name, make(name, mount_point, thing))
    return holder


class _CoroutineRunner:
    """Runs the coroutine tests of a module if pytest-asyncio is not installed."""

    @pytest.fixture
    def amplifier_runner(self) -> Generator[Runner]:
        """The event loop that one test and its fixtures share."""
        from asyncio import Runner  # noqa: PLC0415 - see the file's first lines

        with Runner() as runner:
            yield runner

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run a test marked `asyncio`, if it belongs to a module."""
        test: Any = pyfuncitem.obj
        if not inspect.iscoroutinefunction(test) or not _is_ours(pyfuncitem):
            return None
        given: dict[str, Any] = pyfuncitem.funcargs
        arguments = {name: given[name] for name in inspect.signature(test).parameters}
        from asyncio import Runner  # noqa: PLC0415 - see the file's first lines

        shared = given.get("amplifier_runner")
        with Runner() if shared is None else nullcontext(shared) as runner:
            runner.run(test(**arguments))
        return True


def _is_ours(item: pytest.Function) -> bool:
    if item.get_closest_marker("asyncio") is None:
        return False
    inherited = item.get_closest_marker("module_validation") is not None
    return inherited or find_module(item.config, item.path) is not None
