"""The air: who hears a frame, how strong, and what spoils it."""
