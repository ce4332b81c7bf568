"""Latency models of storage devices and of the file system above them. Crashes are not modelled here."""
