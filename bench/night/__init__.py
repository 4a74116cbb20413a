"""What follows a night: old runs take less room, and somebody is told how it went."""
