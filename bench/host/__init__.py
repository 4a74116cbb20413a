"""Which programs does this host run for the bench, and what is done to them?"""
