"""Code that modules share on top of the kernel: model calls, prices, secrets, child sessions."""
