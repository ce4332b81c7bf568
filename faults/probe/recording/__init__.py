"""The recorder: it stands in the program's own process, before all that Python itself writes to files with."""
