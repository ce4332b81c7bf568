"""Pictures and tables of what many topics cost either layout."""
