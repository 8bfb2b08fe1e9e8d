"""What reads configuration: bounded YAML, merges, variables, and what a project's files can do."""
