"""The tables of messages and of records: what all code after decoding reads.

``schema.py`` declares the columns of the messages table; ``record_tables.py`` says what a table of
records is, which ``streams/``, ``findings/`` and ``diff/`` declare. ``column_kinds.py`` says what a
kind of column is in Arrow, JSON Schema, Spark, DuckDB and text. ``messages.py`` is a batch of
decoded messages. The filter language (``filter.py`` and its neighbours) is here too, and numbers
over time and percentiles. Nothing here prints.
"""
