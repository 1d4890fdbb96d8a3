"""Real TLS conversations over real sockets, and their truth.

``peers`` tells a story of ``tests.peers`` over TLS and records it, ``variants`` names all ways of
speaking TLS, ``damage`` takes packets away and says which records and messages that hit. ``forged``
writes records that OpenSSL does not. ``oracle`` asks tshark, ``decrypted`` is what dcpinspect
reads, ``certificates`` makes who is who, ``openssl`` reaches what Python's ``ssl`` does not show.
"""
