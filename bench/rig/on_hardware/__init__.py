"""Parts of a rig that are real: the boards and the air of a lab."""
