"""A simulated network between the machines of one kernel: streams of bytes that are late, cut, or gone."""
