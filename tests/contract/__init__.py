"""The contract: what the kernel promises, and a test for every promise."""
