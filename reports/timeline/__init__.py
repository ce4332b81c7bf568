"""The timeline of a run: one page to look at, and the same as trace events for Perfetto."""
