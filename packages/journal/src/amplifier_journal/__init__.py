"""The one log of a session: its records, who writes them, what they say, and replay."""
