"""The documents, held to what they show."""
