"""Simulated network: byte streams with delays, resets and lost links."""
