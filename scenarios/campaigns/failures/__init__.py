"""Failures: broken promises with records for replay, and shrinking."""
