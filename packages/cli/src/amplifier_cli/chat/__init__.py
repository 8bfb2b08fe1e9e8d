"""The conversation at a terminal: it streams in below, and stays in the scrollback above."""
