"""Crash images: random or enumerated disk states after a kill, a power cut or damage at rest."""
