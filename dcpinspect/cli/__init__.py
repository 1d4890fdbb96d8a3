"""The command line: one module per command, named after it.

``main.py`` finds the requested command and runs it; errors become one line and an exit status.
Options that several commands have are declared once, in ``options.py``, and put into groups
(``choices.py``). ``interrupts.py`` has the one handler of signals. Commands call the same functions
as the Python API, and print with ``output/``; what they print is decided there.
"""
