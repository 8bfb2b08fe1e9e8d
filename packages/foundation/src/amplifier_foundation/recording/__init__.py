"""Recording: everything a session does, written to its log while it happens."""
