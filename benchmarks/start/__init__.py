"""How much CPU the command needs to start, beside the interpreter itself."""
