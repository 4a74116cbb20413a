"""Runs of scenarios: what is common to all cases of one run, on each kind of rig."""
