"""A station in software."""
