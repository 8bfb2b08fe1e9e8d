"""The log of a session: its records, the recorder that writes them, readings, and replay."""
