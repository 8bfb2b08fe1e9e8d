-- What may be asked of a provider, what may be spent, and what is set aside for calls under way.
-- Money is in billionths of a US dollar. A limit that is NULL does not exist.

-- A turn counts among those its tenant may run when this is the epoch it runs in.
ALTER TABLE turns ADD COLUMN admitted_epoch BIGINT;

CREATE TABLE rate_buckets (
    bucket      TEXT PRIMARY KEY,
    per_minute  DOUBLE PRECISION NOT NULL,
    per_ms      DOUBLE PRECISION NOT NULL,
    capacity    DOUBLE PRECISION NOT NULL,
    level       DOUBLE PRECISION NOT NULL,
    granted     DOUBLE PRECISION NOT NULL DEFAULT 0,
    filled_at   BIGINT NOT NULL
);

CREATE TABLE quotas (
    tenant_id  TEXT PRIMARY KEY REFERENCES tenants (tenant_id),
    period     TEXT NOT NULL,
    usd        BIGINT,
    tokens     BIGINT
);

CREATE TABLE accounts (
    account_id   TEXT PRIMARY KEY,
    tenant_id    TEXT NOT NULL REFERENCES tenants (tenant_id),
    usd_limit    BIGINT,
    token_limit  BIGINT,
    call_limit   BIGINT,
    usd_used     BIGINT NOT NULL DEFAULT 0,
    token_used   BIGINT NOT NULL DEFAULT 0,
    call_used    BIGINT NOT NULL DEFAULT 0,
    usd_held     BIGINT NOT NULL DEFAULT 0,
    token_held   BIGINT NOT NULL DEFAULT 0,
    call_held    BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE holds (
    turn_id         TEXT NOT NULL REFERENCES turns (turn_id),
    call_key        TEXT NOT NULL,
    epoch           BIGINT NOT NULL,
    tree            TEXT NOT NULL,
    quota           TEXT NOT NULL,
    usd             BIGINT NOT NULL,
    tokens          BIGINT NOT NULL,
    output_tokens   BIGINT NOT NULL,
    usd_charged     BIGINT,
    tokens_charged  BIGINT,
    state           TEXT NOT NULL,
    PRIMARY KEY (turn_id, call_key, epoch)
);

CREATE INDEX holds_open ON holds (tree) WHERE state = 'open';
CREATE INDEX holds_open_of_quota ON holds (quota) WHERE state = 'open';
