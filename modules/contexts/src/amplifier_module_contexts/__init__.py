"""The contexts `context-simple`, `context-persistent`, `context-summarizing`, and shared code."""
