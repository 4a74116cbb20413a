"""What scenarios need of a real bench, and in which order and how long they are played there."""
