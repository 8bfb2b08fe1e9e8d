"""The database: connections, transactions, tables, migrations, and the engine that uses it."""
