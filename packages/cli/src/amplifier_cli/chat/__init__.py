"""The chat at a terminal: output streams at the bottom and stays in the scrollback above."""
