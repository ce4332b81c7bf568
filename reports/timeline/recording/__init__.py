"""Recording of a run: collects the data of its timeline."""
