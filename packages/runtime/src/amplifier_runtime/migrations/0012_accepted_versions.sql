-- The other code versions whose turns a worker can continue, as a JSON list.

ALTER TABLE workers ADD COLUMN accepts TEXT NOT NULL DEFAULT '[]';
