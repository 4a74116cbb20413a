"""What happens in histories that nobody thought of, and is it what the rules say?"""
