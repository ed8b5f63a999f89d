"""What the decoder begins with."""

START = 3
