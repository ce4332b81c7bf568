"""How long storage takes: models of disks and of the file system above them. For latency, not for crashes."""
