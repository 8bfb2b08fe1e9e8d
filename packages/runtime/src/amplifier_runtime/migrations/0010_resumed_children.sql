-- A child that has ended may be given a further turn: it has one row for each turn then. told_depth
-- is what it is told of how deep it is, if that is not its depth.

CREATE TABLE children_of_turns (
    turn_id            TEXT PRIMARY KEY REFERENCES turns (turn_id),
    session_id         TEXT NOT NULL REFERENCES sessions (session_id),
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
    told_depth         INTEGER,
    UNIQUE (parent_turn_id, call_key),
    UNIQUE (parent_session_id, handle)
);

INSERT INTO children_of_turns (turn_id, session_id, root_id, parent_session_id, parent_turn_id,
    call_key, handle, agent, background, depth, limits, parent_state, deadline_at, stop, stop_at,
    stop_reason, waiter, waited_until, told)
SELECT turn_id, session_id, root_id, parent_session_id, parent_turn_id, call_key, handle, agent,
    background, depth, limits, parent_state, deadline_at, stop, stop_at, stop_reason, waiter,
    waited_until, told FROM children;

DROP TABLE children;

ALTER TABLE children_of_turns RENAME TO children;

CREATE INDEX children_open ON children (deadline_at) WHERE stop_reason IS NULL;
CREATE INDEX children_waited_for ON children (waiter) WHERE waiter IS NOT NULL;
CREATE INDEX children_by_session ON children (session_id);
