"""What is wrong, whose fault it is, and what to do: rules over messages, streams and connections.

Batches of messages, and the tables of ``streams/`` at the end, go in; findings come out.

``rule.py`` says what a rule is, ``registry.py`` lists all of them, ``checker.py`` calls them,
``collector.py`` puts their like together, and ``explains.py`` says which rule silences or explains
which other. A module of rules is called after what it looks at (``gap_rules.py``). ``logs/`` reads
what servers and consumers wrote themselves: logs, statistics, checkpoints. Docs/rules.md is made of
these rules.
"""
