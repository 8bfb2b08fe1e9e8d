"""What modules share on top of the kernel: model calls, turns and memory."""
