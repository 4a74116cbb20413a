"""Air and law: what a bench may send, and what tells that its radios are too close."""
