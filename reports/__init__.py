"""Results in, files and terminal text out."""
