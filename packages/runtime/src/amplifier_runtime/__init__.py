"""Durable, distributed sessions: turns as workflows over SQLite or PostgreSQL."""
