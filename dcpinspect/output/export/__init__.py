"""Writes messages and tables to files for programs.

Batches of messages, tables and findings go in; JSON, CSV, Parquet, Arrow and packets come out.

``formats.py`` has a class for each format, and ``FORMATS`` lists them. ``json.py`` makes the object
of one message, ``json_programs.py`` and ``line_programs.py`` write many at once: their programs are
made by example, of a message with marks in it. ``table_schema.py`` describes messages and tables in
JSON Schema. Begin with ``formats.py``.
"""
