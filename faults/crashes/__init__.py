"""Crash images: possible states of a disk after a kill, a power cut or damage at rest, drawn or enumerated."""
