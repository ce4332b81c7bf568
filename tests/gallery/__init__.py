"""Gallery of known programs: probes their settings and compares the results with declarations."""
