"""Claims on the models: the commands behind the tables of docs/claims.md."""
