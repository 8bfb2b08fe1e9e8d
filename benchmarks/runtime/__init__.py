"""What durability costs: a durable turn beside bare DBOS steps and a session without either."""
