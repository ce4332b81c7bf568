"""The key index: hash files that lead from `topic#key` to records, written by dispatch and rebuilt by recovery."""
