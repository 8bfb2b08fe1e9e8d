"""`amplifier provider`: list providers, try one, list its models."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from amplifier_cli.output import say, say_json, styled
from amplifier_cli.render.plain import cost_text, count, took
from amplifier_cli.terminal import fitted, heading, notice, print_columns, screen_width, working
from amplifier_sandbox.visible_text import exact

_NAME = click.argument("name", required=False)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def provider() -> None:
    """List and test providers, and list their models."""


@provider.command("list")
@_JSON
def list_providers(as_json: bool) -> None:
    """List the installed providers, their keys, and which one answers."""
    from pathlib import Path  # noqa: PLC0415 - as below

    from amplifier_cli.installed import installed_modules  # noqa: PLC0415 - reads metadata
    from amplifier_foundation.bundles.providers import KEYS, detect_provider  # noqa: PLC0415 - as above
    from amplifier_foundation.credentials import find_key  # noqa: PLC0415 - as above
    from amplifier_foundation.prepare import current_settings  # noqa: PLC0415 - reads YAML

    choice = detect_provider(current_settings(Path.cwd()))
    facts: list[dict[str, Any]] = []
    for each in installed_modules():
        if not each.module_id.startswith("provider-"):
            continue
        names = KEYS.get(each.module_id, ())
        found = next((str(key) for name in names if (key := find_key(name))), None)
        facts.append(
            {
                "name": each.module_id.removeprefix("provider-"),
                "module": each.module_id,
                "answers": each.module_id == choice.module,
                "keys": list(names),
                "key_found": found,
            }
        )
    if as_json:
        say_json(facts)
        return
    rows: list[tuple[str, ...]] = []
    for fact in facts:
        mark = styled("answers", fg="green") if fact["answers"] else ""
        missing = f"no {' or '.join(fact['keys'])}" if fact["keys"] else ""
        rows.append((fact["name"], mark, fact["key_found"] or missing))
    print_columns(rows)
    notice(choice.why)


@provider.command()
@_NAME
@click.option("-m", "--model", help="Model to try.")
def test(name: str | None, model: str | None) -> None:
    """Send one short question, and show what came back and how fast."""
    asyncio.run(try_provider(name, model))


@provider.command()
@_NAME
@_JSON
def models(name: str | None, as_json: bool) -> None:
    """List the models that a provider offers."""
    asyncio.run(_models(name, as_json=as_json))


async def try_provider(name: str | None, model: str | None = None) -> None:
    """Send one short question, and show the answer, the time and the cost."""
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


async def _models(name: str | None, *, as_json: bool) -> None:
    from amplifier_cli.bare_session import mounted_provider  # noqa: PLC0415 - the kernel

    async with mounted_provider(name) as found:
        with working(f"asking {found.name}"):
            listed = await found.list_models()
        usual: Any = found.get_info().defaults.get("model")
    if as_json:
        say_json([{**each.model_dump(mode="json"), "default": each.id == usual} for each in listed])
        return
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
