"""Spark, set up so that nothing but `pip install tornlog[spark]` is needed; `session` is the way in."""
