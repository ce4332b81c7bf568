"""Failures: what broke, the record that brings it back, and how it is made small."""
