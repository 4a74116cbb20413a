"""A lab without hardware: boards, stations and the air between them, each a process of its own."""
