"""The command line interface of tornlog."""
