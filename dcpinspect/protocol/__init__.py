"""The codec: what the bytes of DCP, and of the memcached protocol under it, mean.

``StreamChunk`` goes in; where each message begins, its columns, and the explanation of each of its
fields come out.

``framing.py`` finds messages, also after a hole. ``opcodes.py`` has all commands with their
traits, ``layouts/`` the fields of each; decoder, field tables, JSON and documentation are made of
these. ``decode.py`` reads many messages at once, ``annotate.py`` explains one. Nothing here
remembers anything from message to message, except what a session has negotiated (``session.py``).
"""
