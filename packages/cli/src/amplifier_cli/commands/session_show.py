"""`amplifier session list|show|watch|export`: list sessions and show what happened in one."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from amplifier_cli.output import say, say_json, styled
from amplifier_cli.render.plain import age, cost_text, counted, local_time, size
from amplifier_cli.sessions import (
    SESSION,
    durable_options,
    durable_sessions,
    read_session,
    store,
)
from amplifier_cli.terminal import fitted, heading, notice, print_columns, screen_width
from amplifier_foundation.short_ids import short_id
from amplifier_sandbox.project_folder import project_root
from amplifier_sandbox.visible_text import json_text, visible

_MOST_DAMAGE = 5


@click.command("list")
@click.option("-n", "--limit", default=20, show_default=True, help="Newest sessions to show.")
@click.option("-a", "--all", "everywhere", is_flag=True, help="Those of every folder.")
@click.option("--children", is_flag=True, help="Those of sub-agents, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_sessions(limit: int, everywhere: bool, children: bool, as_json: bool) -> None:
    """List sessions, newest first."""
    sessions = store()
    folder = None if everywhere else project_root(Path.cwd())
    listed, total = sessions.page(folder, limit, children=children)
    found = [each._replace(status=sessions.status(each.session_id, each.status)) for each in listed]
    if as_json:
        say_json([each._asdict() for each in found])
        return
    if not found:
        notice("No sessions yet in this folder." if not everywhere else "No sessions yet.")
        if not everywhere:
            notice("those of every folder: amplifier session list --all")
        return
    room = max(screen_width() - 46, 20)
    print_columns(
        [
            (
                styled(short_id(each.session_id), fg="cyan"),
                age(each.updated_at),
                str(each.turns),
                _money(each.cost_usd, each.turns),
                each.status,
                fitted(_title(each, everywhere), room),
            )
            for each in found
        ],
        ("session", "ago", "turns", "cost", "status", "title"),
        right=(1, 2, 3),
    )
    if total > len(found):
        notice(f"{total - len(found):,} more: amplifier session list --limit {total}")


@click.command()
@SESSION
@durable_options
@click.option("--full", is_flag=True, help="Leave nothing out of long texts and results.")
@click.option("--json", "as_json", is_flag=True, help="Print every record, one a line.")
def show(session_id: str, full: bool, as_json: bool) -> None:
    """Show what happened in a session."""
    from amplifier_cli.render.session_text import text_of  # noqa: PLC0415 - not for the list

    reader = read_session(session_id)
    if as_json:
        for record in reader.records():
            say_json(record._asdict(), indent=None)
        return
    metadata = dict(reader.metadata)
    if durable_sessions() is None:
        stated = str(metadata.get("status", ""))
        metadata["status"] = store().status(reader.session_id, stated)
    _show_facts(reader.session_id, metadata)
    for line in text_of(reader.records(), full=full):
        say(line)
    # Only logs in files have lines that can be damaged; durable sessions have rows.
    _report_damage(getattr(reader, "damage", []))


def _report_damage(found: list[Any]) -> None:
    """Report the first damaged lines and the last one; a damaged log may have thousands."""
    if len(found) <= _MOST_DAMAGE:
        named = found
    else:
        named = [*found[: _MOST_DAMAGE - 1], found[-1]]
    for damage in named:
        notice(f"damaged: line {damage.line}, {damage.kind}: {damage.detail}", level="warning")
    if len(named) < len(found):
        notice(f"{len(found) - len(named):,} more damaged lines between them are not named")


@click.command()
@SESSION
@durable_options
def watch(session_id: str) -> None:
    """Follow a session as it is written."""
    import asyncio  # noqa: PLC0415 - the other commands of this file do without

    from amplifier_cli.render.session_text import SessionText  # noqa: PLC0415 - not for the list

    reader = read_session(session_id)
    notice(f"Watching {reader.session_id}; Ctrl-C ends that, not the session.")

    async def follow() -> None:
        text = SessionText()
        async for record in reader.tail():
            for line in text.lines(record):
                say(line)

    asyncio.run(follow())


@click.command()
@SESSION
@durable_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File; else stdout.")
@click.option(
    "--as", "form", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True
)
def export(session_id: str, output: Path | None, form: str) -> None:
    """Write a session to one file."""
    from amplifier_cli.render.session_text import markdown_of  # noqa: PLC0415 - not for the list

    reader = read_session(session_id)
    records = list(reader.records())
    if form == "json":
        whole = {"metadata": reader.metadata, "records": [each._asdict() for each in records]}
        text = json_text(whole, indent=2)
    else:
        text = visible(markdown_of(reader.session_id, records))
    if output is None:
        say(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")
        notice(f"{output}: {size(output.stat().st_size)}")


def _show_facts(session_id: str, metadata: dict[str, Any]) -> None:
    heading(fitted(str(metadata.get("title") or "(no title)"), screen_width()))
    cost = _money(metadata.get("cost_usd"), int(metadata.get("turns") or 0))
    cost = "cost unknown" if cost == "unknown" else cost or "no cost"
    turns = counted(int(metadata.get("turns") or 0), "turn")
    facts = [
        ("session", session_id),
        ("folder", str(metadata.get("project", ""))),
        ("with", " ".join(str(metadata.get(key) or "") for key in ("bundle", "model")).strip()),
        ("begun", local_time(str(metadata.get("created_at", "")))),
        ("state", f"{metadata.get('status', '')}, {turns}, {cost}"),
    ]
    if metadata.get("parent_id"):
        facts.append(("parent", str(metadata["parent_id"])))
    print_columns((styled(key, dim=True), fitted(value, 200)) for key, value in facts)


def _title(session: Any, everywhere: bool) -> str:
    title = session.title or "(no title)"
    if everywhere:
        return f"{Path(session.project).name}: {title}"
    return title


def _money(cost: str | None, turns: int) -> str:
    if cost:
        return cost_text(Decimal(cost))
    return "unknown" if turns else ""
