"""Patterns of secrets, and a guess at values that look like one."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple


class Pattern(NamedTuple):
    """One kind of secret; the regex's first group, if it has one, is the part to blank.

    The regex is tried only on texts with one of the `anchors`: a substring test is much cheaper.
    """

    kind: str
    anchors: tuple[str, ...]
    regex: re.Pattern[str]


def _pattern(kind: str, anchors: str, regex: str) -> Pattern:
    return Pattern(kind, tuple(anchors.split(" ")), re.compile(regex))


# Where a word begins; text that is itself JSON has `\n` where others have a line break.
_WORD = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_URL_PASSWORD = r"://[^\s:/@]{0,256}:(?!\[REDACTED:)([^\s/@]{1,512})@"

URL_PASSWORD = re.compile(_URL_PASSWORD)

# They run over untrusted text, so none of them may backtrack for long.
PATTERNS = (
    # Keys of model providers.
    _pattern("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,}"),
    _pattern("openrouter-key", "sk-or-", r"sk-or-[A-Za-z0-9_-]{20,}"),
    _pattern(
        "openai-key",
        "sk-",
        _WORD + r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,})",
    ),
    _pattern("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    _pattern("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    _pattern("xai-key", "xai-", r"xai-[A-Za-z0-9]{40,}"),
    _pattern("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{32,}"),
    _pattern("replicate-token", "r8_", r"r8_[A-Za-z0-9]{32,}"),
    _pattern("nvidia-key", "nvapi-", r"nvapi-[A-Za-z0-9_-]{32,}"),
    _pattern("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{32,}"),
    # Source hosting and package registries.
    _pattern("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    _pattern("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,}"),
    _pattern(
        "gitlab-token",
        "glpat- glptt- gldt- glrt- glcbt- glsoat- glft- glagent-",
        r"gl(?:pat|ptt|dt|rt|cbt|soat|ft|agent)-[A-Za-z0-9_-]{20,}",
    ),
    _pattern("npm-token", "npm_", r"npm_[A-Za-z0-9]{36,}"),
    _pattern("pypi-token", "pypi-AgE", r"pypi-AgE[A-Za-z0-9_-]{40,}"),
    _pattern("rubygems-key", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    _pattern("docker-token", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    # Clouds.
    _pattern("aws-key-id", "AKIA ASIA ABIA ACCA", r"A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}(?![0-9A-Z])"),
    _pattern("google-key", "AIza", r"AIza[0-9A-Za-z_-]{35}"),
    _pattern("google-client-secret", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    _pattern("google-token", "ya29.", r"ya29\.[A-Za-z0-9_-]{20,}"),
    _pattern("google-token", "1//0", r"1//0[A-Za-z0-9_-]{20,}"),
    _pattern("azure-account-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{40,}={0,2})"),
    _pattern("azure-signature", "sig=", r"[?&;]sig=([A-Za-z0-9%+/]{32,}={0,2})"),
    _pattern("azure-client-secret", "8Q~", r"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}"),
    _pattern("digitalocean-token", "do_v1_ doo_v1_ dop_v1_ dor_v1_", r"do[opr]?_v1_[0-9a-f]{64}"),
    _pattern("databricks-token", "dapi", r"dapi[0-9a-f]{32}"),
    _pattern("heroku-key", "HRKU-", r"HRKU-[A-Za-z0-9_-]{30,}"),
    _pattern("supabase-token", "sbp_", r"sbp_[0-9a-f]{40}"),
    _pattern("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}"),
    _pattern("vault-token", "hvs. hvb.", r"hv[sb]\.[A-Za-z0-9_-]{24,}"),
    _pattern("terraform-token", ".atlasv1.", r"\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    _pattern("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.]{40,}"),
    # Messaging, mail and payments.
    _pattern("slack-token", "xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _pattern("slack-token", "xapp-", r"xapp-[0-9]-[A-Za-z0-9-]{10,}"),
    _pattern("slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/services/([A-Za-z0-9/]{20,})"),
    _pattern(
        "discord-webhook", "/api/webhooks/", r"/api/webhooks/[0-9]{5,20}/([A-Za-z0-9_-]{20,})"
    ),
    _pattern("telegram-token", ":AA", r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    _pattern("twilio-key", "SK", _WORD + r"SK[0-9a-f]{32}(?![0-9a-f])"),
    _pattern("sendgrid-key", "SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    _pattern("mailgun-key", "key-", _WORD + r"key-[0-9a-f]{32}(?![0-9a-f])"),
    _pattern(
        "stripe-key",
        "sk_live_ sk_test_ rk_live_ rk_test_",
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    ),
    _pattern("stripe-webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,}"),
    _pattern("square-token", "sq0", r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,}"),
    _pattern("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-f]{32}"),
    # Developer tools.
    _pattern("linear-key", "lin_api_", r"lin_api_[A-Za-z0-9]{32,}"),
    _pattern("notion-token", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    _pattern("atlassian-token", "ATATT3", r"ATATT3[A-Za-z0-9_=-]{50,}"),
    _pattern("postman-key", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _pattern("newrelic-key", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    _pattern("grafana-token", "glsa_", r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}"),
    _pattern("sentry-token", "sntrys_ sntryu_", r"sntry[su]_[A-Za-z0-9_=+/]{40,}"),
    _pattern("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    # Formats that any vendor may use.
    _pattern(
        "private-key",
        "-----BEGIN",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[A-Za-z0-9+/=\s\\,:]|-(?!----))*(?:-----END [A-Z0-9 ]{0,60}-----)?",
    ),
    _pattern("jwt", "eyJ", _WORD + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    _pattern(
        "authorization",
        # Without the first letter, which may be upper or lower case.
        "uthorization UTHORIZATION",
        r"(?i:uthorization)[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}[\"'\\]{0,3}"
        r"(?:(?i:basic|bearer|token|digest)\s{1,4})(?!\[REDACTED:)([^\s\"'\\]{8,})",
    ),
    _pattern(
        "bearer-token",
        "earer",
        r"[Bb]earer\s{1,4}(?=[A-Za-z_.~+/=-]{0,40}[0-9])([A-Za-z0-9_.~+/=-]{20,})",
    ),
    _pattern("url-password", "://", _URL_PASSWORD),
)

ANCHORS = tuple({anchor: None for pattern in PATTERNS for anchor in pattern.anchors})


# Every telling name contains one of these in lower case: a quick test before the slow regex.
_HINTS = ("key", "token", "secret", "passw", "passphrase", "pwd", "credential")
_SHORTEST_RANDOM = 16
_RANDOM_BITS_PER_CHAR = 3.0
_PASSWORD_BITS_PER_CHAR = 2.5

TELLING_NAME = (
    r"(?:(?P<password>passw(?:or)?d|passphrase|pwd)"
    r"|(?:api|access|secret|private|signing|encryption|account|auth)[_-]?key"
    r"|token|secret|credentials?)"
)
_IS = r"[\"'\\]{0,3}\s{0,4}(?::=|=>|[:=])\s{0,4}[\"'\\]{0,3}"
# Possessive: otherwise a shorter match would get around the look-ahead in `_ASSIGNMENT`.
_VALUE = r"(?P<value>[A-Za-z0-9+/=_~.!@#$%^&*-]{8,512}+)"
# A value that is called or indexed is code.
_ASSIGNMENT = re.compile(f"(?i:{TELLING_NAME}){_IS}{_VALUE}(?![(\\[])")
_REFERENCE = re.compile(r"[./~]|\$[A-Z_({]|https?\Z")


def may_assign(lowered: str) -> bool:
    """Whether a text, in lower case, can have an assignment worth a closer look."""
    return any(hint in lowered for hint in _HINTS)


def blank_guesses(text: str, mark: str, found: Counter[str]) -> str:
    """Return `text` with what looks like an assigned secret replaced by `mark`."""

    def blank(match: re.Match[str]) -> str:
        if not _looks_random(match["value"], is_password=match["password"] is not None):
            return match[0]
        found["assigned-secret"] += 1
        return match[0][: match.start("value") - match.start()] + mark

    return _ASSIGNMENT.sub(blank, text)


def _looks_random(value: str, *, is_password: bool) -> bool:
    """Whether a value has letters, digits and little order, as generated ones do."""
    if _REFERENCE.match(value):
        return False
    has_letters = any(char.isalpha() for char in value)
    has_digits = any(char.isdigit() for char in value)
    if not (has_letters and has_digits):
        return False
    if is_password:
        return _bits_per_char(value) >= _PASSWORD_BITS_PER_CHAR
    return len(value) >= _SHORTEST_RANDOM and _bits_per_char(value) >= _RANDOM_BITS_PER_CHAR


def _bits_per_char(value: str) -> float:
    """Return the Shannon entropy of the characters."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())
