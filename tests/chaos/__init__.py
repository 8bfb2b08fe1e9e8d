"""Chaos: a fleet of workers that are killed, paused and cut off, and a judge of what came of it."""
