"""`amplifier explain`: show what was sent to the model, who added it, and why the turn ended."""

from __future__ import annotations

from typing import Any

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, say_json, styled
from amplifier_cli.render.plain import cost_text, count, counted
from amplifier_cli.sessions import SESSION, durable_options, read_session
from amplifier_cli.terminal import fitted, heading, notice, print_columns, screen_width
from amplifier_foundation.short_ids import short_id
from amplifier_journal.readings.explanation import Explanation, Part
from amplifier_journal.readings.explanation import explain as explanation_of
from amplifier_sandbox.visible_text import exact, json_text

_TOOLS_SHOWN = 3
_TOOL = "tool_spec"


@click.command()
@SESSION
@durable_options
@click.option("--call", help="Another call than the last, such as 2.1.")
@click.option("--full", is_flag=True, help="Print every part, word for word.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(session_id: str, call: str | None, full: bool, as_json: bool) -> None:
    """Show what was sent to the model, and who added it."""
    reader = read_session(session_id)
    found = explanation_of(reader.records(), call)
    if found is None:
        raise CommandError(
            "Nothing was sent to a model." if call is None else f"There is no call `{call}`.",
            fix=f"amplifier session show {short_id(reader.session_id)}",
        )
    if as_json:
        say_json(_plain(found))
        return
    request = found.request
    heading(f"Call {request.call} to {exact(request.provider)} ({request.module})")
    _show_parts(found, full=full)
    _show_decisions(found)
    say()
    why = f": {found.why}" if found.why else ""
    say(f"{styled('ended', dim=True)}  {found.stop_reason + why}")


def _show_parts(found: Explanation, *, full: bool) -> None:
    room = max(screen_width() - 24, 30)
    parts = found.parts
    tools = [each for each in parts if each.role == _TOOL]
    if full:
        hidden = []
    else:
        hidden = sorted(tools, key=lambda each: -each.tokens)[_TOOLS_SHOWN:]
    rows = [
        (str(number), each.role, count(each.tokens), fitted(each.origin, room))
        for number, each in enumerate(parts, start=1)
        if not any(each is other for other in hidden)
    ]
    if hidden:
        tokens = count(sum(each.tokens for each in hidden))
        rows.append(("", _TOOL, tokens, counted(len(hidden), "more tool")))
    rows.append(("", "", count(sum(each.tokens for each in parts)), "all"))
    print_columns(rows, ("", "role", "tokens", "who added it"), right=(0, 2))
    if full:
        for number, each in enumerate(parts, start=1):
            say()
            say(styled(f"{number}  {each.role}: {exact(each.origin)}", bold=True))
            say(_text(each))
    _show_usage(found.usage)


def _show_usage(usage: dict[str, Any]) -> None:
    if not usage:
        notice("The provider reported no tokens; the counts are estimates.", level="warning")
        return
    cached = usage.get("cache_read_tokens")
    facts = [
        f"{usage.get('input_tokens', 0):,} tokens in",
        f"{usage.get('output_tokens', 0):,} out",
    ]
    if cached is not None:
        facts.insert(1, f"{cached:,} of them from the cache")
    if usage.get("cost_usd") is None:
        facts.append("cost unknown")
    else:
        from decimal import Decimal  # noqa: PLC0415 - for this line alone

        facts.append(cost_text(Decimal(str(usage["cost_usd"]))))
    say(f"{styled('used ', dim=True)}  {', '.join(facts)}")


def _show_decisions(found: Explanation) -> None:
    if not found.decisions:
        return
    say()
    room = max(screen_width() - 36, 30)
    colors = {"granted": "green", "denied": "red"}
    print_columns(
        [
            (
                styled(each.decision, fg=colors.get(each.decision, "magenta")),
                each.tool,
                fitted(each.reason, room),
            )
            for each in found.decisions
        ],
        ("decision", "tool", "why"),
    )


def _text(part: Part) -> str:
    value: Any = part.value
    if isinstance(value, str):
        return value
    return json_text(value, indent=2)


def _plain(found: Explanation) -> dict[str, Any]:
    return {
        **found._asdict(),
        "request": found.request._asdict(),
        "parts": [each._asdict() for each in found.parts],
        "decisions": [each._asdict() for each in found.decisions],
    }
