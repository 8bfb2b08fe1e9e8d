"""What the sandbox costs: the start of a contained program beside that of a bare one."""
