"""Probes of programs with checks on Spark. `spread` runs in the driver, `judging` in the executors."""
