"""Measurements of what the harness and the store do in a second: medians of several rounds, beside floors."""
