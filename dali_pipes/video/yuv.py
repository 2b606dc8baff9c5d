"""Convert planes of luma and chroma to rows of RGB in compiled code, rounded exactly."""

from typing import Any

from dali_pipes.jpeg.simd import Builder, Lanes, load, written_out
from gpu_aug.compiled.jit import kernel, signed

STEP = 32
"""Pixels that are converted at once: 32 luma samples of 8 bits fill a register of 256 bits."""

FRACTION = 20
"""Fraction bits of the factors: sums of samples of 8 bits stay below 2**30, and samples of more bits have smaller
factors."""

FACTORS = 8
"""Length of the table of factors: luma; the constants of red, green and blue; red of V, green of U, green of V, blue of
U."""

_LUMA, _RED, _GREEN, _BLUE, _RED_V, _GREEN_U, _GREEN_V, _BLUE_U = range(FACTORS)


def _convert(bits: int, shared: bool) -> Any:
    """Return a compiled function that converts STEP pixels.

    Its arguments are the addresses of luma, of U and of V (each with half as many samples if `shared`), of the factors,
    and of the result.
    """
    count = STEP // 2 if shared else STEP
    twice = [lane // 2 for lane in range(STEP)]

    def build(builder: Builder, luma: Any, blue: Any, red: Any, factors: Any, out: Any) -> None:
        def factor(lane: int, lanes: int) -> Lanes:
            one = load(builder, factors, 4 * lane, 32, 1)
            return one.pick(one, [0] * lanes)

        y = load(builder, luma, 0, bits, STEP).widen(32, signed=False) * factor(_LUMA, STEP)
        u = load(builder, blue, 0, bits, count).widen(32, signed=False)
        v = load(builder, red, 0, bits, count).widen(32, signed=False)
        parts = [
            v * factor(_RED_V, count) + factor(_RED, count),
            u * factor(_GREEN_U, count) + v * factor(_GREEN_V, count) + factor(_GREEN, count),
            u * factor(_BLUE_U, count) + factor(_BLUE, count),
        ]
        if shared:
            parts = [part.pick(part, twice) for part in parts]
        r, g, b = (((y + part) >> FRACTION).clamp(0, 255).narrow(8) for part in parts)
        _store_interleaved(r, g, b, out)

    return written_out(build, 5)


def _store_interleaved(r: Lanes, g: Lanes, b: Lanes, out: Any) -> None:
    for third in range(3):
        lanes_of_third = range(third * STEP, (third + 1) * STEP)
        pairs = r.pick(g, [lane // 3 + (STEP if lane % 3 == 1 else 0) for lane in lanes_of_third])
        mixed = [
            STEP + lane // 3 if lane % 3 == 2 else index
            for index, lane in enumerate(lanes_of_third)
        ]
        pairs.pick(b, mixed).store(out, third * STEP)


_shared_8, _shared_16, _single_8, _single_16 = (
    _convert(bits, shared) for shared in (True, False) for bits in (8, 16)
)


@kernel
def write_rgb(
    planes: tuple[int, int, int],
    pitches: tuple[int, int],
    shifts: tuple[int, int],
    wide: bool,
    part: tuple[int, int, int, int],
    factors: Any,
    out: Any,
) -> None:
    """Write the RGB pixels of a part of a picture. Each chroma sample applies to all pixels that share it.

    Nothing is checked. Rows of luma must hold at least `left` + `width` samples, and rows of chroma the samples for these.

    Args:
        planes: Addresses of Y, U and V, uint8 or uint16.
        pitches: Bytes from row to row, of Y, and of U and V.
        shifts: Chroma subsampling as powers of two: vertical (0 or 1) and horizontal (0 or 1).
        wide: Whether samples have 16 bits.
        part: Top, left, height, width, in pixels; `left` and `width` are even, `width` is at least STEP.
        factors: int32 [FACTORS]; see FACTORS.
        out: uint8 [height, width, 3], contiguous; written.
    """
    top, left, height, width = part
    size = 2 if wide else 1
    table = factors.ctypes.data
    for row in range(height):
        luma = planes[0] + (top + row) * pitches[0]
        down = ((top + row) >> shifts[0]) * pitches[1]
        line = out.ctypes.data + row * width * 3
        for lane in range(0, width, STEP):
            at = min(lane, width - STEP)
            y = signed(luma + (left + at) * size)
            across = down + ((left + at) >> shifts[1]) * size
            u, v, there = planes[1] + across, planes[2] + across, line + at * 3
            if shifts[1] == 1:
                if wide:
                    _shared_16(y, u, v, table, there)
                else:
                    _shared_8(y, u, v, table, there)
            elif wide:
                _single_16(y, u, v, table, there)
            else:
                _single_8(y, u, v, table, there)
