"""Crash images: what a kill or a power cut may leave of a disk, drawn at random or enumerated."""
