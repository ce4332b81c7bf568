"""Spark jobs: sweeps of seeds, their analysis, a data source for stores, the audit and the rebuild."""
