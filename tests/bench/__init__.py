"""Measurements of the harness and the store, with floors."""
