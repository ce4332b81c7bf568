"""Recovery time: by log size, and by the part of the log after the checkpoint."""
