"""LMDB environments, read without the package lmdb."""
