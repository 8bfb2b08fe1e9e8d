"""The numbered changes of the runtime's tables, each in a file of SQL that both databases read."""
