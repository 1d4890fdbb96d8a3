"""Shows messages and results as plain text for people.

Messages, tables and findings go in; lines for a terminal of a certain width come out, with or
without colours.

``message_lines.py`` has the line of a message, ``table.py`` any table, ``finding_text.py`` the block
of a finding, ``verdict.py`` the sentence on a whole capture, ``lanes.py`` the picture of a stream.
``palette.py`` has all colours. Texts of a capture are escaped before they come to a terminal. Begin
with ``message_lines.py``.
"""
