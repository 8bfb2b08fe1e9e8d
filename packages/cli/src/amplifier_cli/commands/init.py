"""`amplifier init`: one screen that finds what can answer, and writes down the choice."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, styled
from amplifier_cli.terminal import choose_from, heading, is_terminal, notice, print_columns, working
from amplifier_foundation.bundles.providers import KEYS, server_entry
from amplifier_foundation.credentials import find_key, masked
from amplifier_foundation.settings import change_user_settings

_PORTS = {11434: "Ollama", 1234: "LM Studio", 8000: "vLLM", 8080: "llama.cpp"}
_SECONDS = 0.7
_MOST_BYTES = 1_000_000


class LocalServer(NamedTuple):
    """A server that lists models the way OpenAI's does."""

    usual_name: str
    base_url: str
    models: tuple[str, ...]


def find_local_servers() -> list[LocalServer]:
    """Ask the usual ports of this machine, all at once; none of them costs more than a second."""
    with ThreadPoolExecutor(len(_PORTS)) as asking:
        answers = asking.map(_ask, _PORTS)
    return [each for each in answers if each is not None]


def _ask(port: int) -> LocalServer | None:
    from urllib.request import ProxyHandler, build_opener  # noqa: PLC0415 - for this alone

    base_url = f"http://127.0.0.1:{port}/v1"
    # No proxy: what is on this machine is nobody else's business.
    direct = build_opener(ProxyHandler({}))
    try:
        with direct.open(f"{base_url}/models", timeout=_SECONDS) as answer:
            listed: Any = json.loads(answer.read(_MOST_BYTES))
        models = tuple(str(each["id"]) for each in listed["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return LocalServer(_PORTS[port], base_url, models)


_MODELS_SHOWN = 3


class _Candidate(NamedTuple):
    """Something that could answer."""

    name: str
    found: str
    entry: dict[str, Any]


@click.command()
@click.option("--provider", help="Take this one without asking, such as anthropic or ollama.")
def init(provider: str | None) -> None:
    """Choose a provider: finds keys and local servers."""
    with working("looking for keys and local servers"):
        candidates = [*_from_keys(), *_from_address(), *_from_servers()]
    candidates.append(_Candidate("mock", "no model: a stand-in to try things out", _entry("mock")))
    heading("What can answer here")
    print_columns(
        (f"  {number}", styled(each.name, bold=True), each.found)
        for number, each in enumerate(candidates, start=1)
    )
    if len(candidates) == 1:
        notice(
            "No key and no server found. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY,"
        )
        notice("or start a server on port 11434, 1234, 8000 or 8080, and type this again.")
    chosen = _choose(candidates, provider)
    path = change_user_settings(lambda values: values.update(providers=[chosen.entry]))
    say(f"{chosen.name} answers from now on ({path}).")
    say('Try it      amplifier run "what is in this folder?"')
    say("Talk        amplifier chat")


def _from_keys() -> list[_Candidate]:
    found: list[_Candidate] = []
    for module, names in KEYS.items():
        for name in names:
            key = find_key(name)
            if key is not None:
                told = f"{name} {masked(key.value)} ({key.origin})"
                found.append(_Candidate(module.removeprefix("provider-"), told, {"module": module}))
                break
    return found


def _from_address() -> list[_Candidate]:
    address = os.environ.get("OPENAI_BASE_URL")
    if not address:
        return []
    told = f"OPENAI_BASE_URL is {address}"
    return [_Candidate("chat-completions", told, server_entry(address))]


def _from_servers() -> list[_Candidate]:
    found: list[_Candidate] = []
    for each in find_local_servers():
        models = ", ".join(each.models[:_MODELS_SHOWN]) or "no model loaded"
        more = len(each.models) - _MODELS_SHOWN
        told = f"{each.base_url}: {models}{f' and {more} more' if more > 0 else ''}"
        name = each.usual_name.lower().replace(" ", "-")
        found.append(_Candidate(name, told, server_entry(each.base_url)))
    return found


def _entry(name: str) -> dict[str, Any]:
    return {"module": f"provider-{name}"}


def _choose(candidates: list[_Candidate], provider: str | None) -> _Candidate:
    if provider is not None:
        chosen = next((each for each in candidates if each.name == provider), None)
        if chosen is None:
            names = ", ".join(each.name for each in candidates)
            raise CommandError(f"There is no `{provider}` here.", why=f"There is: {names}.")
        return chosen
    if not is_terminal():
        names = "|".join(each.name for each in candidates)
        raise CommandError(
            "Nothing was chosen.",
            why="There is nobody to ask.",
            fix=f"amplifier init --provider {names}",
        )
    numbers = [str(number) for number in range(1, len(candidates) + 1)]
    return candidates[int(choose_from("Which one", numbers, default="1")) - 1]
