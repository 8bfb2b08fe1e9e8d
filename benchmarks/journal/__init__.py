"""What it costs to read the log of a long session, and to follow it."""
