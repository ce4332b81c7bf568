"""Results: one model of the findings of a command, and its writers: terminal, page, JUnit XML, Markdown and JSON."""
