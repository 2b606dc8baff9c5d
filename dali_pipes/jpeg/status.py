"""The statuses of JPEGs, as numbers that compiled code can return, and the type of seek points; both are stored in files.

A JPEG whose status is not GOOD is left to another decoder.
"""

import numpy as np

(
    GOOD,
    NOT_JPEG,
    NOT_BASELINE,
    BAD_HEADER,
    NOT_YCBCR,
    NOT_SUPPORTED,
    BAD_TABLE,
    BAD_CODE,
    CUT_SHORT,
    LEFT_OVER,
    WRONG_RESTART,
    WRONG_SIZE,
    WRONG_CROP,
    SCRATCH_SHORT,
    BAD_NUMBER,
    WRONG_SEEK_POINT,
    SEVERAL_SCANS,
    ODD_SCANS,
    UNFINISHED,
    MANY_SCANS,
) = range(20)

OF_SCANS = frozenset({GOOD, BAD_CODE, CUT_SHORT, LEFT_OVER, WRONG_RESTART, BAD_NUMBER})
"""Statuses that only a pass over all codes of a file can find; the other ones concern the header or the arguments."""

REASONS = (
    "decoded",
    "does not begin and end like a JPEG",
    "neither sequential nor progressive, or not of 8 bits",
    "the header is damaged or unusual",
    "neither gray nor YCbCr",
    "sampling factors that are not supported",
    "a Huffman or quantisation table is missing or damaged",
    "damaged: a code that no table has",
    "damaged: the scan ends too early",
    "damaged: the scan ends too late",
    "damaged: a restart marker is missing",
    "another size than expected",
    "the crop lies outside the image",
    "the scratch memory is too small",
    "damaged: coefficients out of range",
    "the seek points are those of another file",
    "several scans",
    "scans that are malformed, or do not follow from one another",
    "scans are missing",
    "more scans than there is memory for",
)
"""A text for each status."""

SEEK_POINT = np.dtype([("bit", "<u4"), ("dc", "<i2", (3,))])
"""A position between two MCUs, 10 bytes. It is stored in files, so a change needs another `JpegFinder.version`.

bit: Where the next code begins, in bits from the first byte of the scan's entropy-coded data. Stuffed zeros and restart
markers of the file count.
dc: The DC predictors of the components; 0 after a restart marker and for missing components."""
