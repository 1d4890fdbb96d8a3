"""What happened to every vbucket's stream.

Columns of messages go in; the tables of connections, streams, snapshots, gaps, rollbacks and
vbuckets come out.

``follow.py`` is the one pass over messages in row order; ``records.py`` declares what it remembers.
``tracker.py`` feeds it, and asks all of the table modules (``verdicts.py``, ``gaps.py``,
``snapshots.py``, …) when somebody wants to know. ``visibility.py`` is the one place that says what
the capture shows of a connection and what it lacks. Nothing here sees a byte of a packet.
"""
