"""Claims: scenario plans, the ranges they are drawn from, disk models and the catalogue."""
