"""Packets, wherever they come from.

Files (pcap, pcapng, compressed, in object storage, or text that stands for bytes), pipes, and
network interfaces go in; ``PacketBatch`` comes out: one buffer with the bytes of many packets, and
columns that say where each packet is, when it came, and on which interface.

Start with ``open.py``, which finds out what a file is, and ``batch.py``, which is what everybody
else gets. ``live.py`` and ``recorder.py`` capture; nothing here knows TCP.
"""
