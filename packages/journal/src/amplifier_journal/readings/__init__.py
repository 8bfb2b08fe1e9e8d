"""Readings: views of a session's records, for showing and for continuing it."""
