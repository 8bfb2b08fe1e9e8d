"""Running a program so that it cannot reach beyond its workspace, and ends when it has to."""
