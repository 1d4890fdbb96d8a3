"""A DCP producer and a DCP consumer that follow a script over real sockets.

``script`` is the language of conversations, ``stories`` the conversations of the sample captures,
``producer`` and ``consumer`` speak them, ``play`` brings both together; ``network`` and
``recorder`` lay a wire and record it; ``truth`` reads back what was said.
"""
