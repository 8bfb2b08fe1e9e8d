"""What happened in a session, as something a terminal can show; pure functions, no I/O."""
