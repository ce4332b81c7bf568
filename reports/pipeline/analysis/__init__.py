"""Analysis of sweeps: pass rates, times to detection, coverage and latencies."""
