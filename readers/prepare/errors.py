"""Errors of data preparation."""

from readers.sample import ReadersError


class PrepareError(ReadersError):
    """Something that was asked for and cannot be done, or was done in part; the text is one sentence."""
