"""The way of an accepted uplink to the application."""
