"""Devices: what a scenario may ask of one, and one in software."""
