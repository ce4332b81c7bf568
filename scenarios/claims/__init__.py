"""What is claimed of the store: plans of runs, the ranges they are drawn from, disk models, the catalogue."""
