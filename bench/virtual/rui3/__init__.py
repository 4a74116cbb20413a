"""A board with RUI3."""
