"""Spark, set up so that nothing but the extra `spark` is needed; `session` is the way in."""
