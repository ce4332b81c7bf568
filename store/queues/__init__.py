"""Consume queues: dispatch from the log into queues, and reads through queues."""
