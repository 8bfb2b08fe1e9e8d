"""The pytest plugin, seen from the folder of a module author."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from contract.planted_projects import NO_PYTEST_ASYNCIO, TOOL, USES_TOOL, project, write
from contract.requirements import requirement

pytest_plugins = ["pytester"]


# --- it is there, and in nobody's way ------------------------------------------------------------


@requirement("PLUG-1")
def test_the_plugin_is_advertised_under_its_published_name() -> None:
    (entry,) = importlib.metadata.entry_points(group="pytest11", name="amplifier_module")

    assert entry.value == "amplifier_core.pytest_plugin"


@requirement("PLUG-6")
def test_the_plugin_itself_loads_no_part_of_the_kernel() -> None:
    def modules_after(code: str) -> set[str]:
        script = f"import amplifier_core, pytest\n{code}\nimport sys\nprint(*sys.modules)"
        output = subprocess.check_output([sys.executable, "-c", script], text=True)
        return set(output.split())

    added = modules_after("import amplifier_core.pytest_plugin") - modules_after("")

    assert added == {"amplifier_core.pytest_plugin"}


@requirement("PLUG-6")
@pytest.mark.parametrize("arguments", [(), NO_PYTEST_ASYNCIO])
def test_without_a_module_nothing_changes(
    folder: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    folder.makepyfile(
        """
        import sys
        import pytest
        def test_the_kit_is_not_loaded(tmp_path):
            kit = ("amplifier_core.testing", "amplifier_core.validation")
            assert not [name for name in sys.modules if name.startswith(kit)]
        @pytest.fixture
        def coordinator():
            return "mine"
        def test_my_fixture_wins(coordinator):
            assert coordinator == "mine"
        """
    )

    folder.runpytest_subprocess(*arguments).assert_outcomes(passed=2)


@requirement("PLUG-2")
def test_the_option_and_the_marker_are_declared(folder: pytest.Pytester) -> None:
    assert "--module-path=PATH" in folder.runpytest_inprocess("--help").stdout.str()
    assert "@pytest.mark.module_validation" in folder.runpytest_inprocess("--markers").stdout.str()


# --- which module --------------------------------------------------------------------------------


@requirement("PLUG-3", "PLUG-4")
@pytest.mark.parametrize("arguments", [(), NO_PYTEST_ASYNCIO])
def test_the_module_of_the_working_folder_is_mounted(
    folder: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    project(folder)
    write(folder.path / "amplifier_module_hooks_gone" / "README.md", "not a package")

    folder.runpytest_inprocess(*arguments).assert_outcomes(passed=1)


@requirement("PLUG-3")
@pytest.mark.parametrize(
    "at",
    [
        "amplifier-module-tool-planted",
        "checkout",
        "deep/amplifier-module-tool-planted/inner",
        "modules/tool-planted",
    ],
)
def test_the_module_around_the_test_file_is_found(folder: pytest.Pytester, at: str) -> None:
    root = folder.path / at
    package = "src/amplifier_module_tool_planted" if at == "modules/tool-planted" else None
    project(folder, at=at, package=package or "amplifier_module_tool_planted")

    folder.runpytest_inprocess(str(root / "tests")).assert_outcomes(passed=1)


@requirement("PLUG-3")
@pytest.mark.parametrize("named", ["somewhere", "somewhere/amplifier_module_tool_planted"])
def test_the_option_names_a_module_elsewhere(folder: pytest.Pytester, named: str) -> None:
    project(folder, at="somewhere")
    write(folder.path / "other" / "test_other.py", USES_TOOL)

    result = folder.runpytest_inprocess("other", f"--module-path={named}")

    result.assert_outcomes(passed=1)


@requirement("PLUG-3")
def test_an_option_that_names_no_module_is_reported(folder: pytest.Pytester) -> None:
    folder.makepyfile(USES_TOOL)

    result = folder.runpytest_inprocess("--module-path=nowhere")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ImportError: No file *nowhere*"])


@requirement("PLUG-3")
@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["tests", "amplifier-module-tool-planted"], 2),
        (["tests", "amplifier-module-tool-planted/tests/test_planted.py::test_nothing"], 2),
        (["tests"], 0),
    ],
)
def test_a_module_that_pytest_was_given_is_found(
    folder: pytest.Pytester, given: list[str], passed: int
) -> None:
    project(folder, at="amplifier-module-tool-planted", test="def test_nothing(): ...")
    write(folder.path / "tests" / "test_it.py", USES_TOOL)

    result = folder.runpytest_inprocess(*given)

    result.assert_outcomes(passed=passed, skipped=0 if passed else 1)


@requirement("PLUG-3")
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("loop", "orchestrator"),
        ("orchestrator", "orchestrator"),
        ("hooks", "hook"),
        ("hook", "hook"),
        ("provider", "provider"),
        ("context", "context"),
        ("wheel", None),
    ],
)
def test_the_word_in_the_name_gives_the_type(
    folder: pytest.Pytester, word: str, expected: str | None
) -> None:
    test = (
        "def test_type(module_type, is_module_context):\n"
        f"    assert (module_type, is_module_context) == ({expected!r}, True)\n"
    )
    project(folder, test=test, package=f"amplifier_module_{word}_planted")

    folder.runpytest_inprocess().assert_outcomes(passed=1)


@requirement("PLUG-3")
def test_a_package_of_another_name_has_the_type_of_its_folder(folder: pytest.Pytester) -> None:
    test = "def test_type(module_type):\n    assert module_type == 'hook'\n"
    project(folder, test=test, at="amplifier-module-hooks-planted", package="amplifier_planted")

    folder.runpytest_inprocess().assert_outcomes(passed=1)


@requirement("PLUG-3")
@pytest.mark.parametrize("arguments", [(), NO_PYTEST_ASYNCIO])
def test_the_command_line_says_what_the_name_does_not(
    folder: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    test = USES_TOOL.replace("amplifier_module_tool_planted", "my_tool")
    source = TOOL.replace("def mount", "def mount_it").replace('"planted"', "config['name']")
    root = project(folder, source, test, package="my_tool")

    folder.runpytest_inprocess(
        *arguments,
        f"--module-path={root / 'my_tool'}",
        "--module-type=tool",
        "--module-entry-point=my_tool:mount_it",
        '--module-config={"name": "planted"}',
    ).assert_outcomes(passed=1)


@requirement("PLUG-3")
def test_a_named_project_may_have_a_package_that_is_named_like_it(folder: pytest.Pytester) -> None:
    test = USES_TOOL.replace("amplifier_module_tool_planted", "my_tool")
    root = project(folder, test=test, at="my-tool", package="my_tool")

    folder.runpytest_inprocess(f"--module-path={root}", "--module-type=tool").assert_outcomes(
        passed=1
    )


@requirement("PLUG-3")
def test_installed_packages_are_not_taken_for_the_module_under_test(
    folder: pytest.Pytester,
) -> None:
    test = "def test_none(module_path, module_type, is_module_context):\n" + (
        "    assert (module_path, module_type, is_module_context) == (None, None, False)\n"
    )
    project(folder, test=test, at="site-packages")

    folder.runpytest_inprocess("site-packages/tests").assert_outcomes(passed=1)


# --- without pytest-asyncio ----------------------------------------------------------------------


@requirement("PLUG-7")
def test_coroutine_tests_of_a_module_run_without_pytest_asyncio(folder: pytest.Pytester) -> None:
    test = """
import asyncio
import pytest
@pytest.mark.asyncio
async def test_alone():
    await asyncio.sleep(0)
@pytest.mark.asyncio
async def test_failing(tool_module):
    assert not tool_module
def test_not_a_coroutine():
    pass
"""
    project(folder, test=test)

    folder.runpytest_inprocess(*NO_PYTEST_ASYNCIO).assert_outcomes(passed=2, failed=1)


@requirement("PLUG-7")
def test_coroutine_tests_of_others_are_none_of_our_business(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        """
        import pytest
        @pytest.mark.asyncio
        async def test_marked(): ...
        async def test_unmarked(): ...
        """
    )

    result = folder.runpytest_inprocess(*NO_PYTEST_ASYNCIO)

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])


@requirement("PLUG-7")
def test_pytest_starts_where_pytest_asyncio_is_not_installed(folder: pytest.Pytester) -> None:
    project(folder)
    write(
        folder.path / "without.py",
        """
import sys
import pytest
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pytest_asyncio":
            raise ImportError(name)
sys.meta_path.insert(0, Hide())
sys.exit(pytest.main(["-p", "no:asyncio"]))
""",
    )

    folder.run(sys.executable, "without.py").assert_outcomes(passed=1)


# --- the kernel's own suites ---------------------------------------------------------------------


SUITES = Path(__file__).parents[1] / "src/amplifier_core/validation/behavioral"
COLLECTED = (str(SUITES / "tool.py"), str(SUITES / "context.py"), "-o", "python_classes=*Tests")


def test_the_suites_themselves_run_only_for_a_module_of_their_type(
    folder: pytest.Pytester,
) -> None:
    project(folder, test="")

    result = folder.runpytest_inprocess(*COLLECTED, "-rs")

    result.assert_outcomes(passed=7, skipped=10)
    result.stdout.fnmatch_lines(["*the module under test is a tool*"])


def test_the_suites_themselves_are_skipped_without_a_module(folder: pytest.Pytester) -> None:
    result = folder.runpytest_inprocess(*COLLECTED, "-rs")

    result.assert_outcomes(skipped=17)
    result.stdout.fnmatch_lines(["*no module under test*"])
