"""The store of a reading: keeps all its messages at hand, so that any row's columns, bytes and
annotation can be had while reading goes on.

Batches of messages go in, one after the other; rows come out in any order: their columns, their
bytes, their annotations, and the rows that a filter selects.

Columns stay in memory, and bytes are read from the captures again or kept in a temporary file. The
terminal UI, reports and the Python API ask it. Begin with the class ``Store``.
"""
