"""Filters: select messages for a consumer by tag, or by an SQL expression over properties."""
