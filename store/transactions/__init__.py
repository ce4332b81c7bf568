"""Transactional messages: half messages, their decisions, and asking for those that were never made."""
