-- Tenants, their sessions with messages, the turns, and the workers that run them.
-- Times are milliseconds of the wall clock; JSON is text.

CREATE TABLE tenants (
    tenant_id    TEXT PRIMARY KEY,
    weight       DOUBLE PRECISION NOT NULL DEFAULT 1,
    max_running  INTEGER,
    created_at   BIGINT NOT NULL
);

CREATE TABLE sessions (
    session_id   TEXT PRIMARY KEY,
    tenant_id    TEXT NOT NULL REFERENCES tenants (tenant_id),
    parent_id    TEXT,
    plan         TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT '{}',
    epoch        BIGINT NOT NULL DEFAULT 0,
    turn_count   BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL
);

CREATE INDEX sessions_of_tenant ON sessions (tenant_id, created_at);

CREATE TABLE messages (
    session_id   TEXT NOT NULL REFERENCES sessions (session_id),
    position     BIGINT NOT NULL,
    turn_id      TEXT NOT NULL,
    message      TEXT NOT NULL,
    PRIMARY KEY (session_id, position)
);

CREATE TABLE turns (
    turn_id          TEXT PRIMARY KEY,
    tenant_id        TEXT NOT NULL REFERENCES tenants (tenant_id),
    session_id       TEXT NOT NULL REFERENCES sessions (session_id),
    ordinal          BIGINT NOT NULL,
    idempotency_key  TEXT NOT NULL,
    parent_turn_id   TEXT,
    prompt           TEXT NOT NULL,
    state            TEXT NOT NULL,
    reason           TEXT,
    answer           TEXT,
    error            TEXT,
    worker_id        TEXT,
    epoch            BIGINT NOT NULL DEFAULT 0,
    runs             INTEGER NOT NULL DEFAULT 0,
    crashes          INTEGER NOT NULL DEFAULT 0,
    signals          BIGINT NOT NULL DEFAULT 0,
    code_version     TEXT,
    ready_at         BIGINT NOT NULL,
    submitted_at     BIGINT NOT NULL,
    started_at       BIGINT,
    finished_at      BIGINT,
    UNIQUE (session_id, ordinal),
    UNIQUE (session_id, idempotency_key)
);

CREATE INDEX turns_ready ON turns (tenant_id, submitted_at) WHERE state = 'ready';
CREATE INDEX turns_running ON turns (worker_id) WHERE state = 'running';
CREATE INDEX turns_of_parent ON turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;

CREATE TABLE workers (
    worker_id     TEXT PRIMARY KEY,
    address       TEXT NOT NULL,
    code_version  TEXT NOT NULL,
    concurrency   INTEGER NOT NULL,
    state         TEXT NOT NULL,
    beat          BIGINT NOT NULL,
    beat_at       BIGINT NOT NULL,
    started_at    BIGINT NOT NULL
);
