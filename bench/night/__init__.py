"""What follows a night: what it has shown is kept and compared, and somebody is told."""
