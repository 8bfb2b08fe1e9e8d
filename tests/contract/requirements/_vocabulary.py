"""The words everybody shares: event names, capabilities, errors, retries, redaction."""

from __future__ import annotations

from contract.requirements._model import Requirement

REQUIREMENTS: dict[str, Requirement] = {
    "EVENT-1": Requirement(
        "S3 Event Constants; spec 1.6",
        "Every published event constant has its published value.",
    ),
    "EVENT-2": Requirement(
        "S3 Event Constants; spec 1.6; spec 4.2 #36",
        (
            "`ALL_EVENTS` is a list that starts with the 43 published events in their order and "
            "repeats none."
        ),
        reading=(
            "S3 says 41 and more, upstream 42 or 43; the 43 of the newer version come first and "
            "ours follow."
        ),
    ),
    "EVENT-3": Requirement(
        "spec 4.3",
        (
            "Every upper-case constant of the events module is in `ALL_EVENTS`, and every name has "
            "exactly one colon."
        ),
    ),
    "EVENT-4": Requirement(
        "architecture 4 / Two-phase swap",
        "The swap announcements are event constants too.",
    ),
    "EVENT-5": Requirement(
        "spec 1.6",
        "Event names are free text; the registry accepts names nobody published.",
    ),
    "EVENT-6": Requirement(
        "S1 Context Contract / Observability; spec 4.2 #32",
        "The three compaction events all exist.",
        reading="The seeds and modules use different ones; all three constants are kept.",
    ),
    "EVENT-7": Requirement(
        "spec B",
        "The kernel emits only its published events, with the published payload keys.",
    ),
    "EVENT-8": Requirement(
        "spec 1.7",
        (
            "The sixteen capability constants have their names in lower case as values and are "
            "listed in order."
        ),
        reading=(
            "Some documents speak of a frozenset and of cost tiers; it is a list and the tiers do "
            "not exist."
        ),
    ),
    "EVENT-9": Requirement(
        "spec 1.11",
        "The correlation helpers and their event sets are importable with the published values.",
    ),
    "ERR-1": Requirement(
        "S3 Error Mapping; spec 1.8",
        "The sixteen provider errors form the published tree.",
    ),
    "ERR-2": Requirement(
        "S3 Error Mapping; spec 1.8",
        (
            "A provider error carries provider, model, status code, retryable, retry_after and "
            "delay_multiplier with the published defaults per class."
        ),
    ),
    "ERR-3": Requirement(
        "spec 1.8",
        (
            "`repr` of a provider error lists only what differs from the defaults, in the "
            "published order."
        ),
    ),
    "ERR-4": Requirement(
        "spec 1.8",
        "InvalidToolCallError also carries tool name and raw arguments, and takes no retry fields.",
    ),
    "ERR-5": Requirement(
        "S3 Session Errors; spec 4.2 #24",
        "Kernel errors share one root and keep the built-in bases that callers already catch.",
    ),
    "ERR-6": Requirement(
        "spec 1.8; spec 3.4",
        "A provider error keeps the vendor exception it was raised from.",
    ),
    "ERR-7": Requirement(
        "spec 1.13",
        "ModuleValidationError carries a reason code.",
    ),
    "RETRY-1": Requirement(
        "spec 1.9",
        "RetryConfig has the published defaults, and its attributes cannot be written.",
    ),
    "RETRY-2": Requirement(
        "spec 1.9",
        (
            "`jitter` reads 0.2 when on and 0.0 when off, and takes booleans, None, and with a "
            "warning floats and anything else."
        ),
    ),
    "RETRY-3": Requirement(
        "spec 1.9",
        (
            "The old names `min_delay` and `backoff_multiplier` still work, with a deprecation "
            "warning."
        ),
    ),
    "RETRY-4": Requirement(
        "spec 1.9",
        "No retries means one attempt, and a negative number raises OverflowError.",
    ),
    "RETRY-5": Requirement(
        "spec 1.9",
        (
            "Delays grow by the factor up to the maximum, and the error's multiplier may exceed "
            "that maximum."
        ),
    ),
    "RETRY-6": Requirement(
        "spec 1.9; spec 7 #11",
        (
            "A wait the server asked for is never undercut when it is honoured, and ignored when "
            "it is not."
        ),
        reading=(
            "Upstream applies jitter after the server's wait and can halve it; the wait is a floor."
        ),
    ),
    "RETRY-7": Requirement(
        "spec 1.9",
        (
            "Only retryable provider errors are retried, up to the limit, and the last error is "
            "raised unchanged."
        ),
    ),
    "RETRY-8": Requirement(
        "spec 1.9",
        (
            "Before each wait `on_retry` is awaited with the attempt counted from one, the delay "
            "and the error."
        ),
    ),
    "RETRY-9": Requirement(
        "spec 1.9",
        "An error message is classified by status first, then by words in the published order.",
    ),
    "RETRY-10": Requirement(
        "spec 1.9",
        (
            "`truncate_values` shortens long strings in dicts and lists of a copy and says how "
            "much was cut."
        ),
    ),
    "RETRY-11": Requirement(
        "spec 1.9",
        (
            "`redact_secrets` replaces the values of sensitive keys in a copy, whatever their "
            "case, and `SENSITIVE_KEYS` is the published set."
        ),
    ),
}
