"""The file tools `tool-filesystem` and `tool-search`, and the code they share."""
