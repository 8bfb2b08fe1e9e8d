"""A turn: its claim, its journal, its steps, one run of it, and the runner of such runs."""
