-- The accounts that a call is paid from beside those of its tree and its tenant's period: of the
-- agents in its line that have limits of their own, as a JSON list.

ALTER TABLE holds ADD COLUMN own TEXT NOT NULL DEFAULT '[]';
