"""What does this machine have of what the bench needs, and what mends the rest?"""
