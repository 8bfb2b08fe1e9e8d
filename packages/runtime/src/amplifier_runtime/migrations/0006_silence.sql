-- How long it has been seen that a worker does not beat, by whoever looked: at least silence_ms
-- since the beat silent_beat, which says nothing about any later beat.

ALTER TABLE workers ADD COLUMN silent_beat BIGINT NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN silence_ms BIGINT NOT NULL DEFAULT 0;
