"""Why a JPEG is left to another decoder, as numbers that compiled code can return."""

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
) = range(15)

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
    "the crop lies outside the image",
    "the scratch memory is too small",
    "damaged: coefficients out of range",
)
"""A text for each status; the first one is the good one."""
