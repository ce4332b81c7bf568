"""Request processors: a module for each kind of client."""
