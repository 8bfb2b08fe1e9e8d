"""`amplifier session replay|to-test`: the same again, offline, today and in every test run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say
from amplifier_cli.sessions import DURABLE, SESSION, children_of, read_session
from amplifier_cli.terminal import notice, working
from amplifier_foundation.short_ids import short_id

if TYPE_CHECKING:
    from amplifier_journal.log import FollowedLog


@click.command()
@SESSION
@DURABLE
@click.pass_context
def replay(context: click.Context, session_id: str) -> None:
    """Run a session again offline, and compare.

    Loop, memory and hooks run for real; models, tools and people answer from the record. Sessions
    that it started are replayed too. The exit code is 1 when something differs.
    """
    from amplifier_journal.replay.replaying import replay as play  # noqa: PLC0415 - the kernel

    reader = read_session(session_id)
    found = _resolvers(reader)
    differs = False
    for each in (reader, *children_of(reader)):
        with working(f"replaying {short_id(each.session_id)}"):
            result = asyncio.run(play(each, **found))
        differs = differs or bool(result.differences)
        say(f"{short_id(each.session_id)}  {result}")
    context.exit(1 if differs else 0)


@click.command("to-test")
@SESSION
@DURABLE
@click.option("--name", help="Name of the test; by default the session's title.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Test file; else stdout.")
@click.option(
    "--cassettes", type=click.Path(path_type=Path), help="Folder of the recording; see below."
)
def to_test(session_id: str, name: str | None, output: Path | None, cassettes: Path | None) -> None:
    """Make a test of a session that needs no network.

    The recording lies in the folder `cassettes` beside the test. With the test on stdout, as in
    `amplifier session to-test ID > tests/test_x.py`, say where that is: `--cassettes
    tests/cassettes`; without, it is taken from where stdout goes.
    """
    from amplifier_journal.replay.cassette import to_test as make  # noqa: PLC0415 - the kernel

    reader = read_session(session_id)
    title = name or str(reader.metadata.get("title") or reader.session_id)
    made = make(reader, title[:60].lower(), children=children_of(reader))
    folder = cassettes or _beside(output)
    folder.mkdir(parents=True, exist_ok=True)
    recording = folder / f"{made.name}.jsonl.gz"
    recording.write_bytes(made.cassette)
    if output is None:
        say(made.source, nl=False)
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(made.source, encoding="utf-8")
        notice(f"test: {output}")
    notice(f"recording: {recording}")


def _resolvers(reader: FollowedLog) -> dict[str, Any]:
    """Return what finds modules that come from elsewhere, as they are pinned, and their files."""
    from amplifier_foundation.preparing import Wishes, get_ready, plan_entries  # noqa: PLC0415 - YAML

    plans = (each.data["plan"] for each in reader.records() if each.kind == "session.opened")
    if not any(each.get("source") for plan in plans for each in plan_entries(plan)):
        return {}
    from amplifier_foundation.spawn.mention_resolver import MentionResolver  # noqa: PLC0415 - rare

    wishes = Wishes(bundle=reader.metadata.get("bundle"))
    project = Path(reader.metadata.get("project") or Path.cwd())
    ready = asyncio.run(get_ready(wishes, project))
    mentions = MentionResolver(ready.namespaces, ready.project)
    return {"resolver": ready.resolver, "mention_resolver": mentions}


def _beside(output: Path | None) -> Path:
    """Return the folder `cassettes` beside the test, also when a shell writes the test."""
    if output is not None:
        return output.parent / "cassettes"
    written_to = Path("/proc/self/fd/1")
    target = written_to.resolve() if written_to.exists() else Path()
    if not target.is_file():
        raise CommandError(
            "It is not known where the test goes, so the recording has no place.",
            fix="amplifier session to-test -o tests/test_x.py",
        )
    return target.parent / "cassettes"
