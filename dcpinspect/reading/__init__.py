"""A reading: from the packets of captures to messages, streams and findings, in one place.

``engine.py`` is the path of a byte: packets in, framed messages out, and ``decoding.py`` makes rows
of them. ``reading.py`` runs all of it over one or more captures, and a reading is what commands,
the terminal UI, reports and tasks of Spark are given. ``joining.py`` makes one reading of several,
``resuming.py`` puts one aside and goes on with it later, ``query.py`` asks it in SQL, and
``store/`` keeps its messages at hand, so that any row can be shown. Nothing here prints.
"""
