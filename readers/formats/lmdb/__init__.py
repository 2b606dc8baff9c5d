"""LMDB environments, read without the library of that name."""
