"""Turns packets into ordered streams of bytes.

``PacketBatch`` goes in; ``StreamChunk`` comes out: the bytes of one direction of one connection in
order, the holes between them, and the packet that brought each byte.

``headers.py`` reads link, IP and TCP headers of a whole batch. ``packet_owners.py`` says which connection
a packet is of, ``ordering.py`` which bytes come next and when a hole is given up, and
``reassembly.py`` does all of it, so start there. ``tls/`` stands behind it: with the secrets of a
key log, bytes of TLS become bytes of plain text. Nothing here knows DCP.
"""
