"""Public reports of trouble with DCP, each as a script of what was on the wire, with the answer
that it should have had.
"""
