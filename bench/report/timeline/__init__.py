"""What happened in one case of a run, event by event, in a terminal's characters?

A reading of the captures like the report, with the same words; it needs no score.
"""
