"""The `amplifier` command: what a person at a terminal sees of a kernel and its modules."""

__version__ = "0.2.0"
