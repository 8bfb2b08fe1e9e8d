"""A real model behind a real HTTP inference server; what is asserted are wire facts, not prose."""
