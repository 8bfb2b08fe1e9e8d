"""The session store: one folder for each session, below the person's own folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.config.plain_files import require_own_folder
from amplifier_foundation.errors import SessionStoreError
from amplifier_foundation.paths import blobs, session_folder
from amplifier_foundation.short_ids import is_meant
from amplifier_foundation.store.blobs import Blobs
from amplifier_foundation.store.errors import (
    AmbiguousSessionError,
    SessionExistsError,
    SessionNotFoundError,
)
from amplifier_foundation.store.index import Index, Page, Progress, SessionSummary
from amplifier_foundation.store.lease import Lease, holder_of, taking
from amplifier_foundation.store.log_file import store_error
from amplifier_foundation.store.metadata import METADATA, read_metadata, set_damaged_aside
from amplifier_foundation.store.reader import SessionReader
from amplifier_foundation.store.writer import Scrub, SessionWriter
from amplifier_journal.records import now
from amplifier_kit.durable_files import make_private_folder
from amplifier_kit.session_folder import folder_name
from amplifier_kit.writer_lock import Holder

if TYPE_CHECKING:
    from amplifier_foundation.store.migrate import Migration
    from amplifier_foundation.store.retention import RetentionPlan
    from amplifier_foundation.store.rewriting import Rewritten

MAX_SESSION_BYTES = 1024 * 1024 * 1024
_INHERITED = ("title", "model", "bundle")


class SessionStore:
    """Makes, opens, lists and deletes sessions."""

    def __init__(
        self,
        home: Path,
        *,
        max_session_bytes: int = MAX_SESSION_BYTES,
        progress: Progress | None = None,
    ) -> None:
        self.home = home = home.absolute()
        self._limit = max_session_bytes
        self._blobs, self._index = Blobs(blobs(home)), Index(home, progress)

    def create(
        self,
        session_id: str,
        *,
        project: Path,
        metadata: dict[str, Any] | None = None,
        scrub: Scrub | None = None,
    ) -> SessionWriter:
        """Make a session and become its writer; `scrub` is applied to every record.

        Raises:
            SessionExistsError: there is one of that id already.
            StoreError: the disk does not take it.
        """
        project = project.absolute()
        if self._located(session_id) is not None:
            raise SessionExistsError(session_id)
        folder = session_folder(self.home, project, session_id)
        with _disk_errors(f"Session `{session_id}` was not made"):
            make_private_folder(folder)
            with taking(folder, session_id) as lease:
                if (folder / METADATA).exists():
                    raise SessionExistsError(session_id)
                start = now()
                known = {"session_id": session_id, "project": os.fspath(project)}
                facts = {**(metadata or {}), **known, "created_at": start, "updated_at": start}
                return self._saved(self._writer(folder, facts, lease, scrub))

    def open(
        self, session_id: str, *, takeover: bool = False, scrub: Scrub | None = None
    ) -> SessionWriter:
        """Become the writer of a session that is there; `scrub` is applied to every record.

        Raises:
            SessionNotFoundError: there is none of that id.
            SessionHeldError: another process writes it and `takeover` is False.
            StoreError: the disk does not let it be written.
            SessionStoreError: another user could have written it.
        """
        folder = self._locate(session_id)
        # What it remembers is said to a model, and what it allows is done.
        require_own_folder(folder, SessionStoreError)
        with (
            _disk_errors(f"Session `{session_id}` cannot be opened for writing"),
            taking(folder, session_id, takeover=takeover) as lease,
        ):
            metadata, wrong = read_metadata(folder)
            facts = {**metadata, "session_id": session_id}
            writer = self._writer(folder, facts, lease, scrub)
            if not wrong:
                return writer
            set_damaged_aside(folder)
            return self._saved(writer)

    def read(self, session_id: str) -> SessionReader:
        """Return a reader of a session, also while another process writes it.

        Raises:
            SessionNotFoundError: there is none of that id.
        """
        return SessionReader(self._locate(session_id), session_id, self._blobs)

    def list(self, project: Path | None = None, limit: int | None = None) -> list[SessionSummary]:
        """Return the sessions of a project, or of all, the last one used first."""
        return self._index.list(_name(project), limit)

    def page(self, project: Path | None = None, limit: int | None = None) -> Page:
        """Return what `list` does, and how many sessions there are in all."""
        return self._index.page(_name(project), limit)

    def find(self, text: str, project: Path | None = None) -> str:
        """Return the id that `text` stands for: an id, the beginning of one, or `last`.

        A child is found by the beginning of its own part, too (`short_id`). `last` means a session
        that failed to open only where none did open.

        Raises:
            SessionNotFoundError: no session is meant.
            AmbiguousSessionError: several sessions begin like this.
        """
        if text == "last":
            found = self._index.last(_name(project))
        elif text and self._located(text) is not None:
            return text
        else:
            if text:
                having = self._index.list(_name(project), part=text)
            else:
                having = []
            found = [each for each in having if is_meant(each.session_id, text)]
        if not found:
            raise SessionNotFoundError(text)
        if len(found) > 1:
            raise AmbiguousSessionError(text, [each.session_id for each in found])
        return found[0].session_id

    def copy(
        self,
        session_id: str,
        new_id: str,
        upto: int | None = None,
        *,
        metadata: dict[str, Any] | None = None,
        scrub: Scrub | None = None,
    ) -> SessionWriter:
        """Make a session with the records of another up to number `upto`, and become its writer.

        Raises:
            SessionNotFoundError: there is none of `session_id`.
            SessionExistsError: there is one of `new_id` already.
            StoreError: the disk does not take it; there is no new session then.
        """
        reader = self.read(session_id)
        inherited = {name: reader.metadata[name] for name in _INHERITED if name in reader.metadata}
        origin = {"forked_from": session_id, "forked_at": upto}
        writer = self.create(
            new_id,
            project=Path(reader.metadata.get("project", "")),
            metadata={**inherited, **origin, **(metadata or {})},
            scrub=scrub,
        )
        try:
            with _disk_errors(f"Session `{new_id}` was not made"), self._blobs.in_use():
                writer.adopt(reader.stored(upto))
            writer.sync()
            writer.update()
        except BaseException:
            writer.abandon()
            self.delete(new_id)
            raise
        return writer

    def rewrite(self, session_id: str, change: Callable[[Any], Any]) -> Rewritten:
        """Write a session anew in its place: each record, text and file as `change` returns it.

        Raises:
            SessionNotFoundError: there is none of that id.
            SessionHeldError: a process writes it.
            StoreError: it could not be done; the session is as it was.
        """
        from amplifier_foundation.store.rewriting import rewrite_session  # noqa: PLC0415 - rare

        folder = self._locate(session_id)
        with _disk_errors(f"Session `{session_id}` was not changed"):
            return rewrite_session(folder, session_id, self._blobs, self._index, change)

    def index_problems(self) -> list[str]:
        """Return what is wrong with the list of sessions; the next `list` puts most of it right."""
        return self._index.problems()

    def rebuild_index(self) -> int:
        """Make the list of sessions anew from their folders; return how many there are."""
        return self._index.rebuild()

    def holder(self, session_id: str) -> Holder | None:
        """Return who writes a session now; None when nobody does."""
        return holder_of(self._locate(session_id))

    def delete(self, session_id: str) -> None:
        """Delete a session; its large strings go with the next `retention`.

        Raises:
            SessionNotFoundError: there is none of that id.
            SessionHeldError: a process writes it.
        """
        from amplifier_foundation.store.retention import remove_session  # noqa: PLC0415 - rare

        folder = self._locate(session_id)
        with _disk_errors(f"Session `{session_id}` was not deleted"):
            remove_session(folder, session_id)
        self._index.remove(folder)

    def retention(
        self,
        max_age_days: float | None = None,
        max_bytes: int | None = None,
        keep: int = 0,
    ) -> RetentionPlan:
        """Plan which sessions to delete: those unused for so long, then the oldest above a size.

        The `keep` used last, pinned ones and those that a process writes stay. Nothing is deleted
        before `apply` of the plan.
        """
        from amplifier_foundation.store.retention import plan_retention  # noqa: PLC0415 - rare

        return plan_retention(
            self._index, self._blobs, max_age_days=max_age_days, max_bytes=max_bytes, keep=keep
        )

    def migrate(self, *, dry_run: bool = False) -> Migration:
        """Bring sessions of an older format to this one; the old files stay beside the new."""
        from amplifier_foundation.store.migrate import migrate  # noqa: PLC0415 - rare

        return migrate(self._index.folders(), self._blobs, dry_run=dry_run)

    @staticmethod
    def _saved(writer: SessionWriter) -> SessionWriter:
        try:
            writer.update()
        except BaseException:
            writer.abandon()
            raise
        return writer

    def _writer(
        self, folder: Path, metadata: dict[str, Any], lease: Lease, scrub: Scrub | None
    ) -> SessionWriter:
        return SessionWriter(
            folder,
            metadata,
            lease,
            blobs=self._blobs,
            index=self._index,
            limit=self._limit,
            scrub=scrub,
        )

    def _locate(self, session_id: str) -> Path:
        folder = self._located(session_id)
        if folder is None:
            raise SessionNotFoundError(session_id)
        return folder

    def _located(self, session_id: str) -> Path | None:
        """Return the folder of a session; two ids can share a folder's name, but not a folder."""
        for folder in self.home.glob(f"projects/*/sessions/{folder_name(session_id)}"):
            metadata, wrong = read_metadata(folder)
            # Of a session whose files are both damaged, its folder's name is all that is left.
            if metadata.get("session_id") == session_id or (metadata and wrong):
                return folder
        return None


@contextmanager
def _disk_errors(what: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise store_error(what, error) from error


def _name(project: Path | None) -> str | None:
    if project is None:
        return None
    return os.fspath(project.absolute())
