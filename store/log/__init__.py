"""The commit log: segments, appends, flush, commit, checkpoint, and pending puts."""
