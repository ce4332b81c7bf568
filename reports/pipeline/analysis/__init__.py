"""What the rows of sweeps say when they are put together: pass rates, times to detection, coverage, latencies."""
