"""What is sent to devices: what waits for them, in which window, through which station."""
