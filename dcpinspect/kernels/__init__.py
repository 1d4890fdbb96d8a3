"""Machine code: how a function of Python over integers becomes fast.

A kernel is a function with the decorator of ``kernel.py``; it runs as it is written, or as machine
code from the one library that the package brings. ``structs.py`` makes of one declaration of a
record what machine code, Python and NumPy each see. ``build.py`` compiles everything, when the
package is built; ``library.py`` loads it. Docs/kernels.md explains all of it for those who have
never seen LLVM.
"""
