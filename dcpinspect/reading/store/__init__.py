"""The store of a reading: keeps all its messages at hand, so that any row's columns, bytes and
annotation can be had while reading goes on.
"""
