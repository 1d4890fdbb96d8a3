"""Legal servers and clients that talk at random, and the tables that are known to be true of what
they said.

``play(Dice(seed))`` gives a ``Tape``: every message with its meaning. ``packets`` puts it into TCP,
``expect`` says by plain bookkeeping what each table has to hold, ``compare`` says where a reading
differs, or, where the capture lacks something, where it claims what it cannot know.
"""
