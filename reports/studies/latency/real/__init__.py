"""Measurements on this machine: stores in their own processes, with short memory and a neighbour that writes."""
