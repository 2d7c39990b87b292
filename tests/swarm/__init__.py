"""Two sites behind edges with path control, over a path with faults that each seed draws, and what must hold all the same."""
