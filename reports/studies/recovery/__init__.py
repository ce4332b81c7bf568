"""How long recovery takes: by the log's size, by how much of it the checkpoint does not vouch for, and on what."""
