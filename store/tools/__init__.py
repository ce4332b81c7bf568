"""Tools that read a store directory without changing it, or make a new one from it."""
