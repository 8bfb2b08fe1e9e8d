"""Blanking secrets in every log record of the process, before any handler gets it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from amplifier_kit.secrets.scrubber import Scrubber

# Weak, so that the scrubber of a session without cleanup does not stay here forever.
_scrubbers: WeakSet[Scrubber] = WeakSet()
_make_record: Callable[..., logging.LogRecord] | None = None


def scrub_log_records(scrubber: Scrubber) -> Callable[[], None]:
    """Have every log record searched as it is made, until the returned function is called.

    A record belongs to no session, so all records of the process are searched for the secrets of
    every session that asks for it.
    """
    global _make_record
    _scrubbers.add(scrubber)
    if _make_record is None:
        _make_record = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_scrubbed_record)

    def stop() -> None:
        global _make_record
        _scrubbers.discard(scrubber)
        # Another factory may wrap this one and still call it; then it stays, with nothing to do.
        is_outermost = logging.getLogRecordFactory() is _scrubbed_record
        if not _scrubbers and _make_record is not None and is_outermost:
            logging.setLogRecordFactory(_make_record)
            _make_record = None

    return stop


def _scrubbed_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record = (_make_record or logging.LogRecord)(*args, **kwargs)
    for scrubber in tuple(_scrubbers):
        try:
            _blank(record, scrubber)
        except Exception as error:  # noqa: BLE001 - logging it here would recurse
            # Fails closed: a record that cannot be searched is not shown.
            reason = f"could not be searched for secrets ({type(error).__name__})"
            record.msg = f"[withheld: {reason}]"
            record.args = None
            record.exc_info = record.exc_text = record.stack_info = None
    return record


def _blank(record: logging.LogRecord, scrubber: Scrubber) -> None:
    """Replace the texts that have a secret in them; the rest of a record stays."""
    message, found = scrubber.scrub_text(record.getMessage())
    if found:
        record.msg = message
        record.args = None
    if record.exc_info is not None and record.exc_info[0] is not None:
        lines = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        text, found = scrubber.scrub_text(lines)
        if found:
            # The exception still has the secret, and a formatter would print it again.
            record.exc_info = None
            record.exc_text = text
    if record.exc_text:
        record.exc_text = scrubber.scrub_text(record.exc_text)[0]
    if record.stack_info:
        record.stack_info = scrubber.scrub_text(record.stack_info)[0]
