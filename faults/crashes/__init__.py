"""Crash images: possible states of a disk after a kill or a power cut, drawn or enumerated."""
