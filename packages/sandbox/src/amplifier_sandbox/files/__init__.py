"""Access to files beneath a root, for the file tools."""
