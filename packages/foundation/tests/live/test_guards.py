"""A session whose guard did not start does not start, whoever made its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.errors import GuardError
from amplifier_foundation.live import open_live
from amplifier_foundation.sources.resolver import SourceResolver
from amplifier_foundation.store import SessionStore
from end_to_end.recorded_sessions import plan_of

BROKEN = """
__amplifier_module_type__ = "hook"

async def mount(coordinator, config=None):
    {mount}

async def on_session_ready(coordinator):
    {ready}
"""


def a_hook(folder: Path, name: str, *, mount: str = "pass", ready: str = "pass") -> dict[str, Any]:
    """Write a module; each has a name of its own, because a process loads a name only once."""
    package = folder / name / f"amplifier_module_hooks_{name}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(BROKEN.format(mount=mount, ready=ready))
    return {"module": f"hooks-{name}", "source": str(package.parent)}


async def test_a_session_whose_guard_cannot_be_configured_does_not_start(tmp_path: Path) -> None:
    hooks = ({"module": "hooks-approval", "config": {"defualt": "deny"}, "required": False},)
    store = SessionStore(tmp_path / "home")

    with pytest.raises(GuardError, match="`hooks-approval` did not start") as refused:
        async with open_live(plan_of(["Hi."], hooks=hooks), store=store, project=tmp_path):
            pytest.fail("the session started")

    assert "`defualt` is not a valid key. Did you mean `default`?" in refused.value.why
    (listed,) = store.list()
    assert listed.status == "failed"
    opened = next(iter(store.read(listed.session_id).records()))
    assert opened.kind == "session.opened"
    assert "defualt" in str(opened.data["error"])


@pytest.mark.parametrize("stage", ["mount", "ready"])
async def test_a_guard_that_raises_while_it_starts_keeps_the_session_from_starting(
    tmp_path: Path, stage: str
) -> None:
    broken = {stage: "raise OSError('one\\ntwo')"}
    hooks = ({**a_hook(tmp_path, f"broken_{stage}", **broken), "required": True},)
    store = SessionStore(tmp_path / "home")
    resolver = SourceResolver(tmp_path / "home")

    with pytest.raises(GuardError) as refused:
        async with open_live(
            plan_of(["Hi."], hooks=hooks), store=store, project=tmp_path, resolver=resolver
        ):
            pytest.fail("the session started")

    assert "one two" in refused.value.why


async def test_a_session_starts_without_a_hook_that_is_not_a_guard(tmp_path: Path) -> None:
    hooks = (a_hook(tmp_path, "broken_and_optional", mount="raise OSError('broken')"),)
    store = SessionStore(tmp_path / "home")
    resolver = SourceResolver(tmp_path / "home")

    async with open_live(
        plan_of(["Hi."], hooks=hooks), store=store, project=tmp_path, resolver=resolver
    ) as live:
        assert await live.execute("Hello") == "Hi."
