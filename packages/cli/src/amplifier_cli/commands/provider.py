"""`amplifier provider`: which there are, whether they answer, which models they have."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from amplifier_cli.output import say, styled
from amplifier_cli.render.plain import cost_text, count, took
from amplifier_cli.terminal import fitted, heading, notice, print_columns, screen_width, working
from amplifier_sandbox.visible_text import exact

_NAME = click.argument("name", required=False)


@click.group()
def provider() -> None:
    """Look at providers, try them, list their models."""


@provider.command("list")
def list_providers() -> None:
    """List the installed providers, their keys, and which one answers."""
    from pathlib import Path  # noqa: PLC0415 - as below

    from amplifier_cli.installed import installed_modules  # noqa: PLC0415 - reads metadata
    from amplifier_foundation.bundles.providers import KEYS, detect_provider  # noqa: PLC0415 - as above
    from amplifier_foundation.credentials import find_key  # noqa: PLC0415 - as above
    from amplifier_foundation.preparing import current_settings  # noqa: PLC0415 - reads YAML

    choice = detect_provider(current_settings(Path.cwd()))
    rows: list[tuple[str, ...]] = []
    for each in installed_modules():
        if not each.module_id.startswith("provider-"):
            continue
        keys = [key for name in KEYS.get(each.module_id, ()) if (key := find_key(name))]
        if each.module_id == choice.module:
            mark = styled("answers", fg="green")
        else:
            mark = ""
        name = each.module_id.removeprefix("provider-")
        if keys:
            told = str(keys[0])
        else:
            told = " or ".join(KEYS.get(each.module_id, ("",)))
        rows.append((name, mark, told if keys or not told else f"no {told}"))
    print_columns(rows)
    notice(choice.why)


@provider.command()
@_NAME
@click.option("-m", "--model", help="Model to try.")
def test(name: str | None, model: str | None) -> None:
    """Send one short question, and show what came back and how fast."""
    asyncio.run(_test(name, model))


@provider.command()
@_NAME
def models(name: str | None) -> None:
    """List the models that a provider offers."""
    asyncio.run(_models(name))


async def _test(name: str | None, model: str | None) -> None:
    from amplifier_cli.bare_session import mounted_provider  # noqa: PLC0415 - the kernel
    from amplifier_core.message_models import ChatRequest, Message  # noqa: PLC0415 - as above

    async with mounted_provider(name, model) as found:
        request = ChatRequest(
            messages=[Message(role="user", content="Answer with the single word: ready")],
            max_output_tokens=256,
        )
        started = time.monotonic()
        with working(f"asking {found.name}"):
            response = await found.complete(request)
        seconds = time.monotonic() - started
    said = " ".join(each.text for each in response.content if each.type == "text")
    mark = styled("ok", fg="green", bold=True)
    say(f"{mark}  {found.name} answered in {took(seconds)}: {fitted(said, 60)}")
    usage = response.usage
    if usage is not None:
        if usage.cost_usd is None:
            cost = "price unknown"
        else:
            cost = cost_text(usage.cost_usd)
        notice(f"{usage.input_tokens} tokens in, {usage.output_tokens} out, {cost}")


async def _models(name: str | None) -> None:
    from amplifier_cli.bare_session import mounted_provider  # noqa: PLC0415 - the kernel

    async with mounted_provider(name) as found:
        with working(f"asking {found.name}"):
            listed = await found.list_models()
        usual: Any = found.get_info().defaults.get("model")
    heading(found.name)
    print_columns(
        [
            (
                f"  {exact(each.id)}",
                count(each.context_window),
                styled("default", fg="green") if each.id == usual else "",
                fitted(", ".join(each.capabilities), screen_width() - 60),
            )
            for each in listed
        ],
        ("  model", "window", "", "can"),
        right=(1,),
    )
