"""Probes of programs whose checks run on Spark: `spread` in the driver, `judging` in the executors."""
