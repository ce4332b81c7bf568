"""Recovery after a start: log, consume queues, index."""
