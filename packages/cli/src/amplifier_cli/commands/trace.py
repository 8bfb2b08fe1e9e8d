"""`amplifier trace`: a session as a waterfall, on the screen or as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from amplifier_cli.output import say
from amplifier_cli.render.plain import counted
from amplifier_cli.sessions import SESSION, children_of, read_session
from amplifier_cli.terminal import fitted, heading, notice, screen_width
from amplifier_cli.waterfall import as_svg, draw, rows_of


@click.command()
@SESSION
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture.")
def trace(session_id: str, svg: Path | None) -> None:
    """Draw a session as a waterfall."""
    reader = read_session(session_id)
    children = [(each.session_id, list(each.records())) for each in children_of(reader)]
    rows = rows_of(reader.session_id, list(reader.records()), children)
    title = str(reader.metadata.get("title") or reader.session_id)
    if svg is not None:
        svg.write_text(as_svg(rows, fitted(title, 100)), encoding="utf-8")
        notice(f"{svg}: {counted(len(rows), 'bar')}")
        return
    heading(fitted(title, screen_width()))
    for line in draw(rows):
        say(line)
