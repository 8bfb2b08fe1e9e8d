-- What a turn has beside the text of its prompt, as a JSON object: `content` (blocks, with images),
-- `output_schema` (what the answer has to match) and `metadata` (the app's own).

ALTER TABLE turns ADD COLUMN details TEXT NOT NULL DEFAULT '{}';
