"""The log of a session: written with its turns, kept in bounds, read from any machine."""
