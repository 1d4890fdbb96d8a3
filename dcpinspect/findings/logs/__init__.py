"""Reads what the server's logs, its statistics and the checkpoints of consumers say of the streams
that captures show.

Files of text and JSON go in; ``LogEvent`` records and a ``LogEvidence`` come out, at which the rules
of server logs and checkpoints look.

``log_events.py`` has the columns of a record, ``forms.py`` the sentences that servers write,
``memcached.py`` reads a log line by line. What is no line of a log is counted, and never guessed at.
Begin with ``forms.py``.
"""
