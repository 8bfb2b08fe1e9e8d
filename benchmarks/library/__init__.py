"""The library beside pydantic-ai: statements, CPU of a turn, memory, and import."""
