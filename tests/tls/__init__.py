"""Real TLS conversations over real sockets, and their truth.

``peers`` tells a story of ``tests.peers`` over TLS and records it, ``damage`` takes packets away and says which records and messages
that hit, ``certificates`` makes who is who, ``openssl`` reaches what Python's ``ssl`` does not.
"""
