"""Render what happened in a session for a terminal; pure functions, no I/O."""
