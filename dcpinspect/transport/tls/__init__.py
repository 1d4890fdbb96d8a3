"""TLS between reassembly and framing: with the secrets of a key log, chunks of cipher text become
chunks of plain text.

``StreamChunk`` goes in and comes out. ``stage.py`` is the door: it asks ``doubt.py`` whether a
connection is TLS, and gives it a ``TlsDecryption``. ``decryption.py`` finds the keys of a
connection, ``direction.py`` opens the records of one direction and finds its way after a hole, and
``suites.py`` opens one record. ``keylog.py`` reads secrets, ``key_search.py`` tries them where the
start of a connection was not captured. What is said of TLS at the end is in ``connection.py``.
Begin with ``stage.py``.
"""
