"""Thirty tasks of a user's day: how often each mode asks about them, and whether they get done."""
