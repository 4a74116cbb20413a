"""A lab of processes: boards, stations, and the air between them."""
