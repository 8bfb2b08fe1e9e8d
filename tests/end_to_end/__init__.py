"""Whole sessions, from the first record to the replay of the last."""
