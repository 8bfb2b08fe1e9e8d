"""The fixtures of the pytest plugin."""

from __future__ import annotations

import pytest

from contract.planted_projects import NO_PYTEST_ASYNCIO, project
from contract.requirements import requirement

pytest_plugins = ["pytester"]


@requirement("PLUG-4")
@pytest.mark.parametrize("arguments", [(), NO_PYTEST_ASYNCIO])
@pytest.mark.parametrize(
    ("fixture", "slot", "thing"),
    [
        ("provider_module", '"providers"', "MockProvider()"),
        ("tool_module", '"tools"', "MockTool()"),
        ("orchestrator_module", '"orchestrator"', "ScriptedOrchestrator([])"),
        ("context_module", '"context"', "MockContextManager()"),
    ],
)
def test_each_fixture_gives_what_was_mounted_and_cleans_up(
    folder: pytest.Pytester, arguments: tuple[str, ...], fixture: str, slot: str, thing: str
) -> None:
    source = f"""
from amplifier_core.testing import *
from amplifier_core.testing import MockProvider
import asyncio
mounted, undone = [], []
async def mount(coordinator, config):
    assert config == {{}}
    thing = {thing}
    mounted.append((thing, asyncio.get_running_loop()))
    await coordinator.mount({slot}, thing)
    coordinator.register_cleanup(lambda: undone.append("registered"))
    async def cleanup():
        undone.append("returned")
    return cleanup
"""
    test = f"""
import asyncio, sys
import pytest
@pytest.mark.asyncio
async def test_it({fixture}):
    mounted = sys.modules["amplifier_module_tool_planted"].mounted
    assert mounted == [({fixture}, asyncio.get_running_loop())]
def test_it_was_cleaned_up():
    assert sys.modules["amplifier_module_tool_planted"].undone == ["returned", "registered"]
"""
    project(folder, source, test)

    folder.runpytest_inprocess(*arguments).assert_outcomes(passed=2)


@requirement("PLUG-4")
@pytest.mark.parametrize("arguments", [(), NO_PYTEST_ASYNCIO])
def test_a_hook_module_gives_its_cleanup(
    folder: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    source = "async def mount(coordinator, config):\n    return RETURNED\n"
    for name, returned in (("one", "print"), ("two", "7")):
        expected = "print" if name == "one" else "None"
        test = (
            "import pytest\n@pytest.mark.asyncio\nasync def test_it(hook_cleanup):\n"
            f"    assert hook_cleanup is {expected}\n"
        )
        package = f"amplifier_module_hooks_{name}"
        project(folder, source.replace("RETURNED", returned), test, at=name, package=package)

    folder.runpytest_inprocess(*arguments).assert_outcomes(passed=2)


@requirement("PLUG-5")
@pytest.mark.parametrize("arguments", [(), NO_PYTEST_ASYNCIO])
def test_without_a_module_the_fixtures_skip(
    folder: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    folder.makepyfile("def test_it(tool_module): ...")

    folder.runpytest_inprocess(*arguments).assert_outcomes(skipped=1)


@requirement("PLUG-5")
@pytest.mark.parametrize("arguments", [(), NO_PYTEST_ASYNCIO])
@pytest.mark.parametrize(
    ("fixture", "words"),
    [
        ("provider_module", "No provider was mounted"),
        ("tool_module", "No tool was mounted"),
        ("orchestrator_module", "No orchestrator was mounted"),
        ("context_module", "No context manager was mounted"),
    ],
)
def test_a_mount_that_brings_nothing_is_an_error_with_the_published_words(
    folder: pytest.Pytester, arguments: tuple[str, ...], fixture: str, words: str
) -> None:
    test = f"def test_it({fixture}): ..."
    project(folder, "async def mount(coordinator, config): ...", test)

    result = folder.runpytest_inprocess(*arguments)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{words}*"])


@requirement("PLUG-8")
def test_each_test_gets_doubles_of_its_own(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        """
        import pytest
        seen = []
        @pytest.mark.parametrize("turn", [1, 2])
        def test_it(turn, coordinator, mock_deps):
            context, providers, tools, hooks = mock_deps
            assert coordinator.session_id == "test-session"
            assert (context.messages, hooks.events) == ([], [])
            assert providers["default"].name == "mock"
            assert tools["test_tool"].name == "test_tool"
            assert coordinator not in seen and context not in seen
            seen.extend([coordinator, context])
        """
    )

    folder.runpytest_inprocess().assert_outcomes(passed=2)


def test_fixtures_of_a_conftest_win(folder: pytest.Pytester) -> None:
    project(folder, test="def test_it(tool_module):\n    assert tool_module == 'mine'\n")
    folder.makeconftest("import pytest\n@pytest.fixture\ndef tool_module():\n    return 'mine'\n")

    folder.runpytest_inprocess().assert_outcomes(passed=1)
