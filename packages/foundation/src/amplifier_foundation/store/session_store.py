"""The session store: one folder for each session, below the user's own folder."""

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
    from amplifier_foundation.store.rewrite import Rewritten

MAX_SESSION_BYTES = 1024 * 1024 * 1024
_INHERITED = ("title", "model", "bundle")


class SessionStore:
    """Creates, opens, lists and deletes sessions."""

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
        """Create a session and become its writer; `scrub` is applied to every record.

        Raises:
            SessionExistsError: there is one of that id already.
            StoreError: it cannot be written.
        """
        project = project.absolute()
        if self._located(session_id) is not None:
            raise SessionExistsError(session_id)
        folder = session_folder(self.home, project, session_id)
        with _disk_errors(f"Session `{session_id}` was not made"):
            make_private_folder(folder)
            with taking(folder, session_id) as lease:
                # Checked again under the lease: another process may have created it meanwhile.
                if (folder / METADATA).exists():
                    raise SessionExistsError(session_id)
                start = now()
                known = {"session_id": session_id, "project": os.fspath(project)}
                facts = {**(metadata or {}), **known, "created_at": start, "updated_at": start}
                return self._saved(self._writer(folder, facts, lease, scrub))

    def open(
        self, session_id: str, *, takeover: bool = False, scrub: Scrub | None = None
    ) -> SessionWriter:
        """Become the writer of an existing session; `scrub` is applied to every record.

        Raises:
            SessionNotFoundError: there is none of that id.
            SessionHeldError: another process writes it and `takeover` is False.
            StoreError: it cannot be written.
            SessionStoreError: another user could have written it.
        """
        folder = self._locate(session_id)
        # Its messages go to a model and its approvals are honoured, so nobody else may write it.
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
        """Return the sessions of a project, or of all projects, most recently used first."""
        return self._index.list(_name(project), limit)

    def page(
        self, project: Path | None = None, limit: int | None = None, *, children: bool = True
    ) -> Page:
        """Return what `list` returns, and the total number of sessions."""
        return self._index.page(_name(project), limit, children=children)

    def find(self, text: str, project: Path | None = None) -> str:
        """Return the id that `text` means: an id, a prefix of one, or `last`.

        A child is also found by a prefix of its own part (`short_id`). `last` means a session that
        failed to open only if no session did open.

        Raises:
            SessionNotFoundError: no session matches.
            AmbiguousSessionError: several sessions match.
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
        """Create a session with the records of another up to `upto`, and become its writer.

        Raises:
            SessionNotFoundError: there is none of `session_id`.
            SessionExistsError: there is one of `new_id` already.
            StoreError: it cannot be written; there is no new session then.
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
            # The original may be deleted meanwhile: its blobs must not be swept before they are
            # referred to here.
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
        """Rewrite a session in place: each record, text and file as `change` returns it.

        Raises:
            SessionNotFoundError: there is none of that id.
            SessionHeldError: a process writes it.
            StoreError: it could not be rewritten; the session is unchanged.
        """
        from amplifier_foundation.store.rewrite import rewrite_session  # noqa: PLC0415 - rare

        folder = self._locate(session_id)
        with _disk_errors(f"Session `{session_id}` was not changed"):
            return rewrite_session(folder, session_id, self._blobs, self._index, change)

    def index_problems(self) -> list[str]:
        """Return what is wrong with the list of sessions; the next `list` repairs most of it."""
        return self._index.problems()

    def rebuild_index(self) -> int:
        """Rebuild the list of sessions from their folders; return how many there are."""
        return self._index.rebuild()

    def holder(self, session_id: str) -> Holder | None:
        """Return the process that writes a session now, or None."""
        return holder_of(self._locate(session_id))

    def status(self, session_id: str, stated: str) -> str:
        """Return the status of a session whose metadata states `stated`.

        A process that was killed could not say so: a running session that nobody writes was
        interrupted.
        """
        if stated == "running" and self.holder(session_id) is None:
            return "interrupted"
        return stated

    def delete(self, session_id: str) -> None:
        """Delete a session; its large strings are deleted by the next `retention`.

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
        """Plan which sessions to delete: those unused for too long, then the oldest above a size.

        The `keep` most recently used, pinned ones and those that a process writes are kept. Nothing
        is deleted before `apply` of the plan.
        """
        from amplifier_foundation.store.retention import plan_retention  # noqa: PLC0415 - rare

        return plan_retention(
            self._index, self._blobs, max_age_days=max_age_days, max_bytes=max_bytes, keep=keep
        )

    def migrate(self, *, dry_run: bool = False) -> Migration:
        """Convert sessions of an older format to this one; the old files are kept."""
        from amplifier_foundation.store.migrate import migrate  # noqa: PLC0415 - rare

        return migrate(self._index.folders(), self._blobs, dry_run=dry_run)

    @staticmethod
    def _saved(writer: SessionWriter) -> SessionWriter:
        try:
            writer.update()
        except BaseException:
            # Nobody gets this writer, so nobody else would release its lease.
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
        """Return the folder of a session, or None; several ids can have the same folder name."""
        for folder in self.home.glob(f"projects/*/sessions/{folder_name(session_id)}"):
            metadata, wrong = read_metadata(folder)
            # If metadata and log are both damaged, only the name of the folder identifies it.
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
