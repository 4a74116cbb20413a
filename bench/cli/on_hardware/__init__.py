"""The commands about what is plugged in."""
