"""Tests of what is logged: no handler gets a record with a secret in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from amplifier_kit.secrets.log_records import scrub_log_records
from amplifier_kit.secrets.scrubber import Scrubber

SECRET = "canary-7Zt4bX9wLm2Kd8"
logger = logging.getLogger("some.library")


@pytest.fixture
def scrubber() -> Iterator[Scrubber]:
    """A scrubber that watches the log for as long as the test runs."""
    made = Scrubber({SECRET: "A_TOKEN"})
    stop = scrub_log_records(made)
    yield made
    stop()


def raise_and_log() -> None:
    try:
        raise ValueError(f"bad key {SECRET}")
    except ValueError:
        logger.exception("failed")


@pytest.mark.attack("K1")
@pytest.mark.usefixtures("scrubber")
def test_a_message_its_arguments_and_an_error_are_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger.warning("sent %s to %d", SECRET, 7)
    logger.warning("where", stack_info=True, extra={"own": 1})
    raise_and_log()

    assert SECRET not in caplog.text
    assert SECRET not in "".join(repr(vars(each)) for each in caplog.records)
    assert "sent [REDACTED:A_TOKEN] to 7" in caplog.text
    assert "ValueError: bad key [REDACTED:A_TOKEN]" in caplog.text


@pytest.mark.usefixtures("scrubber")
def test_a_record_without_secrets_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("plain")

    logger.error("failed %s", 1, exc_info=error)

    (record,) = caplog.records
    assert (record.msg, record.args) == ("failed %s", (1,))
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.attack("H1")
def test_what_cannot_be_searched_is_withheld(
    scrubber: Scrubber, caplog: pytest.LogCaptureFixture
) -> None:
    broken: Any = {b"no text": "x"}
    scrubber.known = broken

    logger.warning("perhaps %s", SECRET)

    assert caplog.messages == ["[withheld: could not be searched for secrets (TypeError)]"]


def test_the_log_is_as_before_when_the_last_one_stops() -> None:
    before = logging.getLogRecordFactory()
    scrubbers = Scrubber(), Scrubber()
    first, second = map(scrub_log_records, scrubbers)

    first()
    assert logging.getLogRecordFactory() is not before
    second()
    assert logging.getLogRecordFactory() is before


def test_a_factory_that_was_put_around_it_stays(caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogRecordFactory()
    scrubber = Scrubber({SECRET: "A_TOKEN"})
    stop = scrub_log_records(scrubber)
    inner = logging.getLogRecordFactory()

    def around(*args: Any, **kwargs: Any) -> logging.LogRecord:
        return inner(*args, **kwargs)

    logging.setLogRecordFactory(around)
    stop()
    again = scrub_log_records(scrubber)
    logger.warning("%s", SECRET)

    assert logging.getLogRecordFactory() is around
    assert caplog.messages == ["[REDACTED:A_TOKEN]"]
    logging.setLogRecordFactory(inner)
    again()
    assert logging.getLogRecordFactory() is before
