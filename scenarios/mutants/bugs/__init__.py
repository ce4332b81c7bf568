"""Known bugs, one module for each component."""
