"""Child sessions for published modules: `session.spawn`, `session.resume`, `mention_resolver`."""
