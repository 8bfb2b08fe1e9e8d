"""One example for every form of secret that is known, and what must not be left of it."""

from __future__ import annotations

_MIXED = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0xF"
_HEX = "0123456789abcdef" * 4
_DIGITS_AND_CAPITALS = "A1B2C3D4E5F6G7H8J9K0" * 3

EXAMPLES = {
    "anthropic-key": "sk-ant-" + "api03-" + _MIXED,
    "openrouter-key": "sk-or-" + "v1-" + _HEX,
    "openai-key": "sk-" + "proj-" + _MIXED,
    "openai-key, of old": "sk-" + _MIXED + _MIXED[:16],
    "huggingface-token": "hf_" + _MIXED + "xy",
    "groq-key": "gsk_" + _MIXED + _MIXED[:20],
    "xai-key": "xai-" + _MIXED * 2,
    "perplexity-key": "pplx-" + _MIXED + _MIXED[:16],
    "replicate-token": "r8_" + _MIXED + "abcde",
    "nvidia-key": "nvapi-" + _MIXED * 2,
    "langsmith-key": "lsv2_" + "pt_" + _HEX[:32] + "_" + _HEX[:10],
    "github-token": "ghp_" + _MIXED + "wxyz",
    "github-token, of a server": "ghs_" + _MIXED + "wxyz",
    "github-token, fine-grained": "github_pat_" + _MIXED + "_" + _MIXED,
    "gitlab-token": "glpat-" + _MIXED[:20],
    "npm-token": "npm_" + _MIXED + "wxyz",
    "pypi-token": "pypi-" + "AgEIcHlwaS5vcmc" + _MIXED * 2,
    "rubygems-key": "rubygems_" + _HEX[:48],
    "docker-token": "dckr_" + "pat_" + _MIXED[:27],
    "aws-key-id": "AKIA" + _DIGITS_AND_CAPITALS[:16],
    "google-key": "AIza" + _MIXED + "xyz",
    "google-client-secret": "GOCSPX-" + _MIXED[:28],
    "google-token": "ya29." + _MIXED,
    "google-token, to refresh": "1//0" + _MIXED,
    "azure-account-key": "AccountKey=" + _MIXED * 2 + "==",
    "azure-signature": "https://x.example/b?sv=1&sig=" + _MIXED + "abc%3D",
    "azure-client-secret": "abc" + "8Q~" + _MIXED,
    "digitalocean-token": "dop_v1_" + _HEX,
    "databricks-token": "dapi" + _HEX[:32],
    "heroku-key": "HRKU-" + _MIXED,
    "supabase-token": "sbp_" + _HEX[:40],
    "planetscale-token": "pscale_" + "tkn_" + _MIXED,
    "vault-token": "hvs." + _MIXED,
    "terraform-token": "abcdefghij" + ".atlasv1." + _MIXED * 2,
    "doppler-token": "dp." + "pt." + _MIXED + _MIXED[:12],
    "slack-token": "xoxb-" + "123456789012-" + _MIXED[:24],
    "slack-token, of an app": "xapp-" + "1-A012-" + _MIXED,
    "slack-webhook": "https://hooks.slack.com/services/" + "T0000/B0000/" + _MIXED[:24],
    "discord-webhook": "https://discord.com/api/webhooks/" + "123456789/" + _MIXED * 2,
    "telegram-token": "123456789" + ":AA" + _MIXED + "x",
    "twilio-key": "SK" + _HEX[:32],
    "sendgrid-key": "SG." + _MIXED[:22] + "." + _MIXED + "abcdefghijk",
    "mailgun-key": "key-" + _HEX[:32],
    "stripe-key": "sk_live_" + _MIXED[:24],
    "stripe-webhook-secret": "whsec_" + _MIXED,
    "square-token": "sq0atp-" + _MIXED[:22],
    "shopify-token": "shpat_" + _HEX[:32],
    "linear-key": "lin_api_" + _MIXED + "abcdefgh",
    "notion-token": "ntn_" + _MIXED + _MIXED[:14],
    "atlassian-token": "ATATT3" + _MIXED * 2,
    "postman-key": "PMAK-" + _HEX[:24] + "-" + _HEX[:34],
    "newrelic-key": "NRAK-" + _DIGITS_AND_CAPITALS[:27],
    "grafana-token": "glsa_" + _MIXED + "_" + _HEX[:8],
    "sentry-token": "sntrys_" + _MIXED * 2,
    "age-key": "AGE-SECRET-KEY-1" + _DIGITS_AND_CAPITALS[:58],
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\n"
    + f"{_MIXED}\n" * 4
    + "-----END RSA PRIVATE KEY-----",
    "private-key, encrypted": "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
    + f"DEK-Info: AES-128-CBC,0011\n\n{_MIXED}\n-----END EC PRIVATE KEY-----",
    "private-key, without an end": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{_MIXED}\n{_MIXED}",
    "jwt": "eyJ" + _MIXED + ".eyJ" + _MIXED + "." + _MIXED,
    "authorization": "Authorization: Basic " + _MIXED,
    "bearer-token": "bearer " + _MIXED,
    "url-password": "postgres://app:" + "Tr0ub4dor3" + "@db.example/app",
    "assigned-secret": 'client_secret = "' + _MIXED + '"',
    "assigned-secret, a password": "PASSWORD=" + "hunter22x",
    "assigned-secret, of AWS": "aws_secret_access_key: " + _MIXED + "/abcdefg",
    "assigned-secret, in JSON": '{"api_key": "' + _MIXED + '"}',
}


def hidden_part(kind: str) -> str:
    """Return what must not be left of an example: the name before a secret may stay."""
    example = EXAMPLES[kind]
    if kind.startswith("private-key"):
        return _MIXED
    if kind.startswith("assigned-secret, a"):
        return "hunter22x"
    if kind == "url-password":
        return "Tr0ub4dor3"
    if kind == "terraform-token":
        return _MIXED
    if _MIXED[:8] not in example:
        return example
    return example[example.index(_MIXED[:8]) :].rstrip('"}')
