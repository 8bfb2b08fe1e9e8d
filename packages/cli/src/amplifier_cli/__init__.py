"""The `amplifier` command: the terminal interface to the kernel and its modules."""

__version__ = "0.2.0"
