"""`amplifier top`: show the time, tokens and cost of a session by module."""

from __future__ import annotations

import click

from amplifier_cli.output import say_json, styled
from amplifier_cli.render.plain import cost_text, count, counted, took
from amplifier_cli.sessions import SESSION, children_of, durable_options, read_session
from amplifier_cli.terminal import fitted, heading, notice, print_columns, screen_width
from amplifier_journal.readings.spending import Share, Spending, spending
from amplifier_sandbox.visible_text import exact

_BAR = 20


@click.command()
@SESSION
@durable_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def top(session_id: str, as_json: bool) -> None:
    """Show time, tokens and money by module."""
    reader = read_session(session_id)
    children = {each.session_id: list(each.records()) for each in children_of(reader)}
    took = spending(reader.records(), children)
    if as_json:
        shares = [each._asdict() for each in took.by_module()]
        say_json(shares)
        return
    heading(fitted(str(reader.metadata.get("title") or reader.session_id), screen_width()))
    _show(took)
    if children:
        notice(f"with {counted(len(children), 'session')} that it started")
    if took.unpriced_calls:
        calls = counted(took.unpriced_calls, "model call")
        notice(
            f"{calls} without a known price; set one: `pricing` in the settings", level="warning"
        )


def _show(took: Spending) -> None:
    shares = took.by_module()
    whole = sum(each.seconds for each in shares) or 1.0
    rows = [_row(each, each.seconds / whole) for each in shares]
    total = Share(
        styled("all", bold=True),
        sum(each.calls for each in shares),
        sum(each.seconds for each in shares),
        sum(each.input_tokens for each in shares),
        sum(each.output_tokens for each in shares),
        took.cost_usd,
        took.unpriced_calls,
    )
    rows.append((total.module, *_row(total, 0)[1:]))
    heads = ("module", "calls", "time", "", "tokens in", "out", "cost")
    print_columns(rows, heads, right=(1, 2, 4, 5, 6))


def _row(share: Share, part: float) -> tuple[str, ...]:
    bar = "█" * round(part * _BAR)
    return (
        exact(share.module),
        str(share.calls),
        took(share.seconds),
        styled(bar, fg="cyan"),
        count(share.input_tokens) if share.input_tokens else "",
        count(share.output_tokens) if share.output_tokens else "",
        cost_text(share.cost_usd, share.unpriced_calls).removeprefix("cost "),
    )
