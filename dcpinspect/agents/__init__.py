"""Answers for agents: ``dcpinspect mcp`` serves what captures hold over the Model Context Protocol.

A question of an agent goes in; a bounded, redacted answer comes out, as JSON and as text.
``tools.py`` has the tools, each of which calls the Python API. ``library.py`` opens captures below
the allowed folders and remembers them, ``answers.py`` bounds an answer, ``server.py`` speaks the
protocol.
"""
