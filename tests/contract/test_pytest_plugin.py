"""Contract of the pytest plugin that module authors get with the kernel."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from contract.installer import write_module
from contract.pytest_runs import run_pytest, write_test
from contract.requirements import requirement
from contract.samples import GOOD

FIXTURES = """
    import pytest

    @pytest.mark.asyncio
    async def test_the_tool_is_mounted(tool_module, coordinator, module_path, module_type):
        assert module_type == "tool"
        assert module_path.name == "amplifier_module_tool_sample"
        assert coordinator.get("tools") == {"good": tool_module}
        assert (await tool_module.execute({"a": 1})).output == {"a": 1}

    @pytest.mark.asyncio
    async def test_doubles_are_fresh_and_work(coordinator, mock_deps, is_module_context):
        context, providers, tools, hooks = mock_deps
        assert is_module_context
        assert (coordinator.mount_history, context.messages, hooks.events) == ([], [], [])
        assert providers["default"].name == "mock"
        response = await providers["default"].complete(None)
        assert response.content[0].text == "Mock response"
        assert list(tools) == ["test_tool"]
        await coordinator.mount("tools", tools["test_tool"], name="x")

    @pytest.mark.asyncio
    async def test_again(coordinator, mock_deps):
        assert coordinator.mount_history == []
        assert mock_deps[2]["test_tool"].call_count == 0
"""


def _module(folder: Path, kind: str, source: str) -> Path:
    home = folder / f"amplifier-module-{kind}-sample"
    return write_module(home, f"{kind}-sample", source)


@requirement("PLUG-1")
def test_the_plugin_is_advertised_to_pytest() -> None:
    points = importlib.metadata.entry_points(group="pytest11", name="amplifier_module")

    assert {point.value for point in points} == {"amplifier_core.pytest_plugin"}


@requirement("PLUG-2")
def test_the_plugin_offers_its_option(tmp_path: Path) -> None:
    assert "--module-path" in run_pytest(tmp_path, "--help").output


@requirement("PLUG-2", "PLUG-4", "PLUG-7", "PLUG-8")
@pytest.mark.parametrize("with_asyncio", [True, False])
def test_the_fixtures_work_with_and_without_pytest_asyncio(
    with_asyncio: bool, tmp_path: Path
) -> None:
    home = _module(tmp_path, "tool", GOOD["tool"])
    write_test(home / "tests", "test_fixtures.py", FIXTURES)

    outcome = run_pytest(home, "tests", with_asyncio=with_asyncio)

    assert outcome.counts == {"passed": 3}, outcome


KINDS = {
    "provider": ("provider", "provider_module", "No provider was mounted"),
    "tool": ("tool", "tool_module", "No tool was mounted"),
    "loop": ("orchestrator", "orchestrator_module", "No orchestrator was mounted"),
    "context": ("context", "context_module", "No context manager was mounted"),
    "hooks": ("hook", "hook_cleanup", ""),
}


@requirement("PLUG-3", "PLUG-4")
def test_every_kind_is_recognised_mounted_and_cleaned_up(tmp_path: Path) -> None:
    for word, (kind, fixture, _) in KINDS.items():
        home = _module(tmp_path, word, GOOD[kind])
        source = f"""
            import pytest

            @pytest.mark.asyncio
            async def test_it_is_there({fixture}, coordinator, module_type):
                assert {fixture} is not None
                assert module_type == "{kind}"
                coordinator.register_cleanup(lambda: print("cleaned up"))
        """
        write_test(home / "tests", f"test_{word}.py", source)

    outcome = run_pytest(tmp_path, "-s")

    assert outcome.counts == {"passed": 5}, outcome
    assert outcome.output.count("cleaned up") == 5


@requirement("PLUG-5")
def test_the_fixtures_say_when_there_is_nothing_to_give(tmp_path: Path) -> None:
    test = """
        import pytest

        @pytest.mark.asyncio
        async def test_it({}): ...
    """
    named = {word: entry for word, entry in KINDS.items() if word != "hooks"}
    for word, (_, fixture, _) in named.items():
        home = _module(tmp_path, word, "async def mount(coordinator, config): ...")
        write_test(home / "tests", f"test_{word}.py", test.format(fixture))
        write_test(tmp_path / "nowhere", f"test_no_{word}.py", test.format(fixture))

    outcome = run_pytest(tmp_path)

    assert outcome.of("skipped") == 4, outcome
    assert outcome.of("passed") == 0
    assert [words for _, _, words in named.values() if words not in outcome.output] == []


TYPE = """
    def test_the_type(module_type):
        assert module_type == "{}"
"""


@requirement("PLUG-3")
@pytest.mark.parametrize("place", ["working folder", "parents", "option", "any name"])
def test_the_module_is_found_from_wherever_pytest_is_started(place: str, tmp_path: Path) -> None:
    home = _module(tmp_path / "checkout", "loop", GOOD["orchestrator"])
    inside = write_test(home / "tests" / "deep", "test_inside.py", TYPE.format("orchestrator"))
    outside = write_test(tmp_path / "outside", "test_outside.py", TYPE.format("orchestrator"))
    renamed = write_module(tmp_path / "renamed", "loop-renamed", GOOD["orchestrator"])
    write_test(renamed / "tests", "test_renamed.py", TYPE.format("orchestrator"))
    package = str(home / "amplifier_module_loop_sample")
    runs: dict[str, tuple[Path, list[str]]] = {
        "working folder": (home, ["tests"]),
        "parents": (inside, []),
        "option": (outside, ["--module-path", package]),
        "any name": (renamed, ["tests"]),
    }

    folder, arguments = runs[place]
    outcome = run_pytest(folder, *arguments)

    assert outcome.counts == {"passed": 1}, outcome


@requirement("PLUG-6")
@pytest.mark.parametrize("with_asyncio", [True, False])
def test_where_there_is_no_module_the_plugin_is_not_noticed(
    with_asyncio: bool, tmp_path: Path
) -> None:
    source = """
        import sys

        import pytest

        @pytest.fixture
        def coordinator():
            return "the project's own"

        def test_own_fixtures_win(coordinator):
            assert coordinator == "the project's own"

        def test_nothing_was_loaded():
            heavy = ("amplifier_core.session", "amplifier_core.testing", "pydantic")
            assert [name for name in heavy if name in sys.modules] == []
    """
    write_test(tmp_path, "test_project.py", source)

    outcome = run_pytest(tmp_path, with_asyncio=with_asyncio)

    assert outcome.counts == {"passed": 2}, outcome
