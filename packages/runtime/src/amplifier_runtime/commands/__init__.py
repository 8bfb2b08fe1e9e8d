"""The commands that this package adds to `amplifier`, by the entry points `amplifier.commands`."""
