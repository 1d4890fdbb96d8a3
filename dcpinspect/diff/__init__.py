"""Compares two readings of the same streams event by event: what only one side has, and why.

Two readings go in; records of differences come out. ``reading_side.py`` is one of the two,
``queries.py`` has the comparison as SQL, and ``differences.py`` runs it over so many vbuckets at a
time as memory allows. ``network_paths.py`` compares the packets of a connection that both captures
have.
"""
