"""Parts of a rig that are programs on real wires."""
