"""Why a JPEG is left to another decoder, as numbers that compiled code can return."""

GOOD = 0
NOT_JPEG = 1
NOT_BASELINE = 2
BAD_HEADER = 3
NOT_YCBCR = 4
NOT_SUPPORTED = 5
BAD_TABLE = 6
BAD_CODE = 7
CUT_SHORT = 8
LEFT_OVER = 9
WRONG_RESTART = 10
WRONG_SIZE = 11
WRONG_WINDOW = 12
SCRATCH_SHORT = 13
BAD_NUMBER = 14

REASONS = (
    "decoded",
    "does not begin and end like a JPEG",
    "not a baseline JPEG with one scan",
    "the header is damaged or unusual",
    "neither gray nor YCbCr",
    "sampling factors that are not supported",
    "a Huffman or quantisation table is missing or damaged",
    "damaged: a code that no table has",
    "damaged: the scan ends too early",
    "damaged: the scan ends too late",
    "damaged: a restart marker is missing",
    "another size than expected",
    "the window lies outside the image",
    "the scratch memory is too small",
    "damaged: coefficients out of range",
)
"""A text for each status; the first one is the good one."""
