"""What belongs to this process: the paths it runs from, and the programs it starts."""
