"""Memories: `context-simple`, `context-persistent`, `context-summarizing`, and what they share."""
