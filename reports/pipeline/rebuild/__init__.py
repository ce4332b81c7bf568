"""Rebuilding a store of any size in tasks of Spark, wherever it is and wherever the new one is to be."""
