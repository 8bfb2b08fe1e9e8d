"""`amplifier session replay|to-test`: run a session again offline, now or as a test."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say
from amplifier_cli.sessions import SESSION, children_of, durable_options, read_session
from amplifier_cli.terminal import notice, working
from amplifier_foundation.short_ids import short_id

if TYPE_CHECKING:
    from amplifier_journal.log import FollowedLog


@click.command()
@SESSION
@durable_options
@click.pass_context
def replay(context: click.Context, session_id: str) -> None:
    """Run a session again offline, and compare.

    Loop, memory and hooks run for real; models, tools and people answer from the record. Sessions
    that it started are replayed too. The exit code is 1 when something differs.
    """
    from amplifier_journal.replay.replayer import replay as play  # noqa: PLC0415 - the kernel

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
@durable_options
@click.option("--name", help="Name of the test; by default the session's title.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Test file; else stdout.")
@click.option("--cassettes", type=click.Path(path_type=Path), help="Folder of the recording.")
def to_test(session_id: str, name: str | None, output: Path | None, cassettes: Path | None) -> None:
    """Write a test from a session; it needs no network.

    The recording is written to the folder `cassettes` next to the test. If the test goes to
    stdout, as in `amplifier session to-test ID > tests/test_x.py`, name that folder with
    `--cassettes tests/cassettes`; by default it is next to the file that stdout is.
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
    """Return the resolvers for modules that have a source, and for files of their bundles."""
    from amplifier_foundation.prepare import SessionOptions, plan_entries, prepare_session  # noqa: PLC0415 - YAML

    # Preparing a session reads YAML and checks trust; a session of installed modules needs neither.
    plans = (each.data["plan"] for each in reader.records() if each.kind == "session.opened")
    if not any(each.get("source") for plan in plans for each in plan_entries(plan)):
        return {}
    from amplifier_foundation.spawn.mention_resolver import MentionResolver  # noqa: PLC0415 - rare

    options = SessionOptions(bundle=reader.metadata.get("bundle"))
    project = Path(reader.metadata.get("project") or Path.cwd())
    ready = asyncio.run(prepare_session(options, project))
    mentions = MentionResolver(ready.namespaces, ready.project)
    return {"resolver": ready.resolver, "mention_resolver": mentions}


def _beside(output: Path | None) -> Path:
    """Return the folder `cassettes` beside the test, even if the shell redirects it to a file."""
    if output is not None:
        return output.parent / "cassettes"
    # Linux only: the link of file descriptor 1 names the file that stdout is redirected to.
    written_to = Path("/proc/self/fd/1")
    target = written_to.resolve() if written_to.exists() else Path()
    if not target.is_file():
        raise CommandError(
            "It is not known where the test goes, so the recording has no place.",
            fix="amplifier session to-test -o tests/test_x.py",
        )
    return target.parent / "cassettes"
