-- Turns that other turns have asked for, and how many each tree has had.
-- A child that has ended has a stop_reason; stop says that it is to end, and why.
-- waiter is the turn that waits for it, at most until waited_until.
-- told is what the model of its parent was told it by.

CREATE TABLE trees (
    root_id  TEXT PRIMARY KEY REFERENCES sessions (session_id),
    started  BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE children (
    turn_id            TEXT PRIMARY KEY REFERENCES turns (turn_id),
    session_id         TEXT NOT NULL UNIQUE REFERENCES sessions (session_id),
    root_id            TEXT NOT NULL REFERENCES sessions (session_id),
    parent_session_id  TEXT NOT NULL REFERENCES sessions (session_id),
    parent_turn_id     TEXT NOT NULL REFERENCES turns (turn_id),
    call_key           TEXT NOT NULL,
    handle             TEXT NOT NULL,
    agent              TEXT NOT NULL,
    background         INTEGER NOT NULL,
    depth              INTEGER NOT NULL,
    limits             TEXT NOT NULL,
    parent_state       TEXT NOT NULL,
    deadline_at        BIGINT NOT NULL,
    stop               TEXT,
    stop_at            BIGINT,
    stop_reason        TEXT,
    waiter             TEXT,
    waited_until       BIGINT,
    told               TEXT,
    UNIQUE (parent_turn_id, call_key),
    UNIQUE (parent_session_id, handle)
);

CREATE INDEX children_open ON children (deadline_at) WHERE stop_reason IS NULL;
CREATE INDEX children_waited_for ON children (waiter) WHERE waiter IS NOT NULL;
