"""Agent loops: `loop-basic`, `loop-events` and `loop-streaming`, and the turn they share."""
