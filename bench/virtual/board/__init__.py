"""A board: its radio, its flash, its serial port, and what runs on it."""
