-- The log of each session, and what is shown live beside it until its turn ends.

-- Where each log ends, and how much it holds.
CREATE TABLE logs (
    session_id  TEXT PRIMARY KEY REFERENCES sessions (session_id),
    next_seq    BIGINT NOT NULL DEFAULT 1,
    row_count   BIGINT NOT NULL DEFAULT 0,
    byte_count  BIGINT NOT NULL DEFAULT 0,
    oldest_at   BIGINT
);

CREATE INDEX logs_oldest ON logs (oldest_at) WHERE oldest_at IS NOT NULL;

-- The key begins with the id of its turn. Size 0: cut off, kept for its key until the turn ends.
CREATE TABLE events (
    session_id  TEXT NOT NULL,
    seq         BIGINT NOT NULL,
    turn_id     TEXT NOT NULL,
    key         TEXT NOT NULL UNIQUE,
    name        TEXT NOT NULL,
    data        TEXT NOT NULL,
    size        BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (session_id, seq)
);

-- Behind which event of the log each stands; numbers only ever grow within a session.
CREATE TABLE live_events (
    session_id  TEXT NOT NULL,
    number      BIGINT NOT NULL,
    after_seq   BIGINT NOT NULL,
    turn_id     TEXT NOT NULL,
    call        TEXT NOT NULL,
    name        TEXT NOT NULL,
    data        TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (session_id, number)
);
