"""History of runs -> what `longpole history` prints and writes."""
