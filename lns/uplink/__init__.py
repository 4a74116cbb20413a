"""What becomes of what devices send: who sent it, which copy it is, what is done with it."""
