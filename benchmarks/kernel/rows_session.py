"""Building a session: mounted by hand, and through the loader."""

from __future__ import annotations

from benchmarks.kernel.measure import Block
from benchmarks.kernel.modules import (
    amplifier_module_bench_context,
    amplifier_module_bench_loop,
    amplifier_module_bench_provider,
    amplifier_module_bench_tool,
)
from benchmarks.kernel.sessions import (
    BENCH_CONTEXT,
    BENCH_LOOP,
    OUR_CONTEXT,
    OUR_LOOP,
    mount_plan,
    open_session,
)

from amplifier_core import AmplifierSession


async def _mounting() -> Block:
    plan = mount_plan(BENCH_LOOP)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            coordinator = AmplifierSession(plan).coordinator
            await amplifier_module_bench_loop.mount(coordinator, {})
            await amplifier_module_bench_context.mount(coordinator, {})
            await amplifier_module_bench_provider.mount(coordinator, {})
            await amplifier_module_bench_tool.mount(coordinator, {})

    return block


async def _initializing(loop: str, context: str) -> Block:
    plan = mount_plan(loop, context=context)
    session = await open_session(plan)
    mounted = session.coordinator.to_dict()
    if not (mounted["providers"] and mounted["tools"]):
        raise RuntimeError("the bench modules did not mount")

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            await open_session(plan)

    return block


SUBJECTS = {
    "mounts": _mounting,
    "initialize": lambda: _initializing(BENCH_LOOP, BENCH_CONTEXT),
    "initialize-own": lambda: _initializing(OUR_LOOP, OUR_CONTEXT),
}
