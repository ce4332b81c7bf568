"""Failures: violations with records for replay, and shrinking."""
