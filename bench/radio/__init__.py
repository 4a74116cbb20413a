"""The air of the simulated rig."""
