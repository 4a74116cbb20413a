"""The captures of any number of runs, scored by Spark.

Words that the network server also spells are spelled again here on purpose: an oracle that shared
them with what it checks would share its mistakes too.
"""
