"""The terminal UI, of Textual: one capture, and six views of it.

An ``Inspection`` (``inspection.py``) goes in: a reading that goes on beside the UI. Keys come in
by ``key_bindings.py``. ``app.py`` is the screen around the views, and ``navigation.py`` goes from
one view to another, at a message, a vbucket or a finding. Each view is a module with its name
(``packets_view.py``). What shows lines with a cursor has the base ``line_view.LineView``. Begin with
``navigation.py``.
"""
