"""Which copy is this, whose is it, and what follows from that?"""
