"""A laboratory for storage code of any kind: run it on a failing disk, seed by seed, and shrink what breaks."""
