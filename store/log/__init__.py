"""The commit log: segments, appends, flush, commit, checkpoint, and the waits of a put."""
