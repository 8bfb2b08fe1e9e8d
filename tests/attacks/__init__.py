"""Attacks from outside on the command as a user runs it, named by the ids of the threat model."""
