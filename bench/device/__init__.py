"""Devices: what a scenario may ask of one, and the drivers of real boards."""
