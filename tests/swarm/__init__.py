"""Two sites behind edges with path control, over a path with faults that seeds draw, and what must hold."""
