-- A session's id belongs to its tenant: others may use the same one. `session_id` is the key of
-- the rows, `name` the id that the tenant gave if the key is another one. Sessions that are there
-- keep their keys, which are their ids, and so do those of workers that do not know of names.

ALTER TABLE sessions ADD COLUMN name TEXT;

CREATE UNIQUE INDEX sessions_named ON sessions (tenant_id, COALESCE(name, session_id));
