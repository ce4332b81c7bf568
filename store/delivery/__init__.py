"""Delayed delivery: delay levels and the copies of delivered messages."""
