"""What the session store and the commands that read it cost."""
