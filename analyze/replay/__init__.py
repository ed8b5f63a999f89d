"""Trace -> a model of what waits for what, replayed with other times: what a fix would save, and where that cannot be told."""
