"""The commit log: segments, appends, flush, commit, checkpoint and recovery."""
