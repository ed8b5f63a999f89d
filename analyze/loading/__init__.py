"""Bytes of any trace file -> the tables of a Trace."""
