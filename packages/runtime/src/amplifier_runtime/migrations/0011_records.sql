-- What a run looks for when it begins: which parts the log has, and what it was opened with.
CREATE INDEX events_found_by_kind ON events (session_id, name, seq)
    WHERE name IN ('part', 'message', 'session.opened', 'mounted');
