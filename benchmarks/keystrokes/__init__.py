"""The keys that a user presses to answer questions."""
