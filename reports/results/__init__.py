"""Results: one model of what a command found, and its writers: terminal, page, JUnit XML, Markdown and JSON."""
