"""What Linux, macOS and Windows do differently, one file per facility.

Callers do not ask which platform they are on: they call these, and what a platform lacks is refused
with an error that says so.
"""
