-- What reaches a turn from outside: answers to its questions, a request to stop, words to go by.

-- A turn that has run is cancelled by the worker that has it, or the next one: graceful, immediate.
ALTER TABLE turns ADD COLUMN cancel TEXT;

-- open -> answered, expired or withdrawn, and never anything else again.
CREATE TABLE approvals (
    approval_id  TEXT PRIMARY KEY,
    tenant_id    TEXT NOT NULL REFERENCES tenants (tenant_id),
    session_id   TEXT NOT NULL REFERENCES sessions (session_id),
    turn_id      TEXT NOT NULL REFERENCES turns (turn_id),
    key          TEXT NOT NULL,
    prompt       TEXT NOT NULL,
    options      TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT 'open',
    answer       TEXT,
    answered_by  TEXT,
    asked_at     BIGINT NOT NULL,
    expires_at   BIGINT,
    decided_at   BIGINT,
    UNIQUE (turn_id, key)
);

CREATE INDEX approvals_open ON approvals (tenant_id, asked_at) WHERE state = 'open';
CREATE INDEX approvals_expiring ON approvals (expires_at) WHERE state = 'open';

-- A text belongs to the turn that has taken it into its history; until then to nobody.
CREATE TABLE steers (
    session_id  TEXT NOT NULL REFERENCES sessions (session_id),
    steer_id    TEXT NOT NULL,
    seq         BIGINT NOT NULL,
    text        TEXT NOT NULL,
    turn_id     TEXT,
    said_at     BIGINT NOT NULL,
    PRIMARY KEY (session_id, steer_id),
    UNIQUE (session_id, seq)
);

CREATE INDEX steers_waiting ON steers (session_id, seq) WHERE turn_id IS NULL;
