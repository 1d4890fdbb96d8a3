"""What people and programs get of a reading: text, files and reports.

``render/`` writes for people (lines, field tables, timelines, findings), ``export/`` for programs
(JSON, CSV, Parquet, captures), ``report/`` makes one file to hand over. ``statistics.py`` and
``overview.py`` gather numbers that several of them show. Formats are registered in
``export/formats.py``. Nothing here decides what is true: that was decided in ``streams/`` and
``findings/``.
"""
