"""Is what a network server hands over as the specification has it?"""
