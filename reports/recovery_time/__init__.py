"""Pictures and tables of how long recovery takes."""
