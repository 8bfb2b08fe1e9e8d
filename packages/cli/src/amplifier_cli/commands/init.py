"""`amplifier init`: find keys and local servers, and store the chosen provider."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, styled
from amplifier_cli.terminal import (
    ask_secret,
    choose_from,
    heading,
    is_terminal,
    print_columns,
    working,
)
from amplifier_foundation.bundles.providers import KEYS, server_entry
from amplifier_foundation.credentials import find_key, masked, store_key
from amplifier_foundation.session_options import model_key
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
    """Query the usual ports of this machine in parallel; returns within a second."""
    with ThreadPoolExecutor(len(_PORTS)) as asking:
        answers = asking.map(_ask, _PORTS)
    return [each for each in answers if each is not None]


def _ask(port: int) -> LocalServer | None:
    from urllib.request import ProxyHandler, build_opener  # noqa: PLC0415 - for this alone

    base_url = f"http://127.0.0.1:{port}/v1"
    # Without the proxy of the environment: it cannot reach this machine's loopback, and a local
    # server is not its business.
    direct = build_opener(ProxyHandler({}))
    try:
        with direct.open(f"{base_url}/models", timeout=_SECONDS) as answer:
            # Any service may listen on these ports, so its answer is limited.
            listed: Any = json.loads(answer.read(_MOST_BYTES))
        models = tuple(str(each["id"]) for each in listed["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return LocalServer(_PORTS[port], base_url, models)


_MODELS_SHOWN = 3
_MOCK = "mock"


class _Candidate(NamedTuple):
    """A provider that could be used here."""

    name: str
    found: str
    entry: dict[str, Any]
    # The key that it needs and that is not there yet.
    missing_key: str = ""


@click.command()
@click.option("--provider", help="Take this one without asking, such as anthropic or ollama.")
@click.option("--model", help="Model to use; by default the provider's own choice.")
@click.option("--key-stdin", is_flag=True, help="Read the provider's key from standard input.")
@click.option("--no-call", is_flag=True, help="Do not try it with one short question.")
def init(provider: str | None, model: str | None, key_stdin: bool, no_call: bool) -> None:
    """Choose a provider, and store its key.

    Finds keys and local servers. A key is stored in a file that only you can read. One short
    question shows that the provider answers, and what that cost.
    """
    with working("looking for keys and local servers"):
        candidates = [*_from_keys(), *_from_address(), *_from_servers()]
    names = {each.name for each in candidates}
    candidates += [each for each in _without_key() if each.name not in names]
    candidates.append(_Candidate(_MOCK, "no model: the mock, to try things out", _entry(_MOCK)))
    heading("What can answer here")
    print_columns(
        (f"  {number}", styled(each.name, bold=True), each.found)
        for number, each in enumerate(candidates, start=1)
    )
    chosen = _choose(candidates, provider)
    if chosen.missing_key or key_stdin:
        _store_key(chosen, key_stdin)
    entry = dict(chosen.entry)
    if model is not None:
        config = dict(entry.get("config") or {})
        entry["config"] = {**config, model_key(config): model}
    path = change_user_settings(lambda values: values.update(providers=[entry]))
    say(f"{chosen.name} answers from now on ({path}).")
    if chosen.name != _MOCK and not no_call:
        from amplifier_cli.commands.provider import try_provider  # noqa: PLC0415 - the kernel

        asyncio.run(try_provider(None))
        # It has answered one question; a session also has instructions and tools.
        trouble = asyncio.run(_trouble_of_a_session())
        if trouble is not None:
            raise trouble
    say('Try it      amplifier run "what is in this folder?"')
    say("Chat        amplifier")


async def _trouble_of_a_session() -> Exception | None:
    from amplifier_cli.bare_session import provider_trouble  # noqa: PLC0415 - the kernel
    from amplifier_foundation.prepare import SessionOptions, prepare_session  # noqa: PLC0415 - YAML

    return await provider_trouble(await prepare_session(SessionOptions()))


def _store_key(chosen: _Candidate, key_stdin: bool) -> None:
    """Take the key of a provider and store it."""
    module = str(chosen.entry["module"])
    if module not in KEYS:
        raise CommandError(f"`{chosen.name}` takes no key.")
    name = chosen.missing_key or KEYS[module][0]
    key = sys.stdin.readline().strip() if key_stdin else ask_secret(name)
    if not key:
        raise CommandError(
            "No key was given.", fix=f"amplifier init --provider {chosen.name} --key-stdin < FILE"
        )
    path = store_key(name, key)
    say(f"{name} {masked(key)} is stored in {path}, which only you can read.")


def _without_key() -> list[_Candidate]:
    return [
        _Candidate(
            module.removeprefix("provider-"), f"asks for {names[0]}", {"module": module}, names[0]
        )
        for module, names in KEYS.items()
    ]


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
        # Those that need no key to be typed.
        candidates = [each for each in candidates if not each.missing_key]
        names = "|".join(each.name for each in candidates)
        raise CommandError(
            "Nothing was chosen.",
            why="There is nobody to ask.",
            fix=f"amplifier init --provider {names}",
        )
    numbers = [str(number) for number in range(1, len(candidates) + 1)]
    return candidates[int(choose_from("Which one", numbers, default="1")) - 1]
