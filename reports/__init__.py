"""Commands, their results as text and pages, Spark jobs, timelines and studies."""
