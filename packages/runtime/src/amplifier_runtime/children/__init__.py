"""Agents below a turn, each as a turn of its own."""
