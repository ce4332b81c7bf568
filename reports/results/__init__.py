"""Results: a model of a command's findings, and writers for terminal, page, JUnit XML, Markdown and JSON."""
