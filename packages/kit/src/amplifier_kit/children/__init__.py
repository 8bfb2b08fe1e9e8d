"""Child sessions: who may be started, what each has from its parent, and that it ends in time."""
