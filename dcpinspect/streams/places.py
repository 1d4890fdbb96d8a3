"""Columns of a place in tables of integers."""

PLACE = 4
AT_ROW, AT_OFFSET, AT_FRAME, AT_TIME = range(PLACE)
