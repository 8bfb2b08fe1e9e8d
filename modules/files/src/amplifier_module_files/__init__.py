"""Tools on the files of a workspace: `tool-filesystem` and `tool-search`, and what they share."""
