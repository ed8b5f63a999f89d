"""Bundle or trace in, typed results out; numpy and pandas, never torch."""
