"""An object says by its package which module it comes from."""

from __future__ import annotations

import pytest

from amplifier_kit.module_ids import module_of, package_of


@pytest.mark.parametrize(
    ("package", "module_id"),
    [
        ("amplifier_module_tool_wall_clock.tool", "tool-wall-clock"),
        ("amplifier_module_tool_bash", "tool-bash"),
        ("amplifier_module_files.tool_search.tools", "tool-search"),
        ("amplifier_module_contexts.context_simple", "context-simple"),
        # What the modules of a family share belongs to the family.
        ("amplifier_module_contexts.spill", "contexts"),
        ("some_app.memory", None),
    ],
)
def test_a_package_names_its_module(package: str, module_id: str | None) -> None:
    thing = type("Thing", (), {"__module__": package})()

    assert module_of(thing) == module_id


def test_other_code_is_named_by_its_package() -> None:
    thing = type("Thing", (), {"__module__": "some_app.memory"})()

    assert package_of(thing) == "some-app"
