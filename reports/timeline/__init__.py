"""Timeline of a run: one HTML page, or trace events for Perfetto."""
