"""`amplifier module install`: install libraries of fetched modules into a separate environment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from amplifier_cli.output import say
from amplifier_cli.terminal import notice, working

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from amplifier_foundation.prepare import PreparedSession


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("-b", "--bundle", help="Bundle that has the modules; by default the active one.")
def install(names: tuple[str, ...], bundle: str | None) -> None:
    """Install the libraries that modules require.

    They go from your package index into a folder of Amplifier's own, ~/.amplifier/libraries. What
    is installed already stays as it is.
    """
    install_for(bundle, names)


def install_for(bundle: str | None, names: tuple[str, ...] = ()) -> None:
    """Install the requirements of the named modules of a bundle, by default of all."""
    from amplifier_foundation.prepare import SessionOptions, prepare_session  # noqa: PLC0415 - reads YAML

    ready = asyncio.run(prepare_session(SessionOptions(bundle=bundle)))
    known = [each["module"] for each in ready.entries]
    for name in names:
        if name not in known:
            raise click.UsageError(f"`{name}` is not a module of the bundle `{ready.bundle}`.")
    required = _required(ready, names)
    if not required:
        notice("Nothing to install: no library is missing.")
        return
    for module_id, requirements in required.items():
        say(f"{module_id}: {', '.join(map(str, requirements))}")
    from amplifier_foundation import paths  # noqa: PLC0415 - only where something is installed
    from amplifier_foundation.library_install import install_libraries  # noqa: PLC0415 - as above

    with working("installing libraries"):
        installed = install_libraries(paths.home(), required)
    notice(f"installed in {paths.libraries(paths.home())}: {', '.join(installed)}")


def _required(ready: PreparedSession, names: tuple[str, ...]) -> dict[str, list[Requirement]]:
    """Return the missing requirements of each named module, by default of all.

    A module that cannot be fetched is a warning; so is one that is not pinned, unless it is named.
    """
    from amplifier_core.errors import ModuleError  # noqa: PLC0415 - the kernel
    from amplifier_foundation.sources.errors import UnpinnedError  # noqa: PLC0415 - as above
    from amplifier_kit.explained_error import ExplainedError  # noqa: PLC0415 - as above

    required: dict[str, list[Requirement]] = {}
    for each in ready.entries:
        if names and each["module"] not in names:
            continue
        try:
            missing = ready.resolver.libraries(each["module"], each.get("source"))
        except (ExplainedError, ModuleError) as error:
            # A code above 1 is a refusal, such as a file that is not what is pinned.
            is_left_out = isinstance(error, UnpinnedError) and not names
            if getattr(error, "exit_code", 1) > 1 and not is_left_out:
                raise
            notice(f"{each['module']}: {error}", level="warning")
            continue
        if missing:
            required[each["module"]] = missing
    return required
