"""Report pages: the results of many runs in one self-contained HTML file."""
