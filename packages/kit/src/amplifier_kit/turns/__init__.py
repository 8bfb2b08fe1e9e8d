"""What every loop does from a prompt to its answer: ask the model, run the tools, end in time."""
