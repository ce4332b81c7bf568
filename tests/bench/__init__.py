"""Measurements of the harness and the store: rates as medians of several rounds, with floors."""
