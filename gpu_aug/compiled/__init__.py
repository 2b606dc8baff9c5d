"""Functions compiled to machine code by Numba, and the folder that keeps the machine code."""
