"""Settings: reader and editor of broker.conf, and the table of all settings."""
