"""The audit of a store directory of any size: its log, queues and index held against each other by joins."""
