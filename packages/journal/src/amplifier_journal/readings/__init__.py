"""Readings: what the records of a session say, for whoever shows or continues it."""
