"""Claims: scenario plans, their ranges, disk models and the catalogue."""
