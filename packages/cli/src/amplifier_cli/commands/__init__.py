"""The commands, one file for each or for each group."""
