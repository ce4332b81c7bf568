"""Key index: hash files from `topic#key` to records, for queries by key."""
