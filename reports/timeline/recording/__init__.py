"""The recording of a run: what a picture of it needs, collected while it is executed, and only if somebody asks."""
