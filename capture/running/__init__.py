"""An unmodified program -> bundles of its loop: what `longpole run` does."""
