"""Processes and files under confinement; no other package of Amplifier is imported here."""
