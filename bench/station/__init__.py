"""Stations in software, and the tap between a station and the network server."""
