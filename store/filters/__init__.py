"""Which messages a consumer is given: by tag, or by an SQL expression over properties."""
