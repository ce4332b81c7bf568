"""Recovery time, by log size and by distance to the checkpoint."""
