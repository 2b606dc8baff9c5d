"""The two Triton kernels of a fused pass: the means that contrast needs, and everything else.

Both run one Triton program per tile and image. A record (see ``record``) describes the image to the program. Its values are
equal for the whole tile, so a branch on them costs only a test; but each branch costs registers, so features that no image of
a batch has are not compiled: see "Features" in ``record``.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"
# ruff: noqa: N803, N806, D417, SIM102, SIM300 - compiled by Triton: no types, constants in capitals, tests in two steps

import triton
import triton.language as tl

from gpu_aug.engines.fused.compile.program import Mix
from gpu_aug.engines.fused.triton import record, stages
from gpu_aug.engines.fused.triton.sample import load_at, sample


def _offsets(dtype, *names):
    """Return offsets of fields in a record, in words, as constexpr: Triton reads module constants in no other form."""
    return (tl.constexpr(offset) for offset in record.offsets(dtype, *names))


_KIND, _BORDER, _MIX, _IS_PROJECTIVE = _offsets(
    record.RECORD, "kind", "border", "mix", "is_projective"
)
_SIZE, _VIEW, _WINDOW, _FRAME = _offsets(record.RECORD, "size", "visible", "window", "frame")
_FILL, _SHARE, _SOURCE, _OTHER = _offsets(record.RECORD, "fill", "share", "source", "other")
_OUT, _OUT_STRIDES = _offsets(record.RECORD, "out", "out_strides")
_BACK, _BEFORE, _AFFINE, _SLOPES = _offsets(record.RECORD, "back", "before", "affine", "slopes")
_IS_FLOAT, _SHIFT, _ROW = _offsets(record.SOURCE, "is_float", "shift", "row")
_HAS_FLOATS, _HAS_MIX = tl.constexpr(record.HAS_FLOATS), tl.constexpr(record.HAS_MIX)
_HAS_COLOUR, _HAS_HOLES = tl.constexpr(record.HAS_COLOUR), tl.constexpr(record.HAS_HOLES)
_HAS_RARE = tl.constexpr(record.HAS_RARE)
_NO_MIX, _BLEND = tl.constexpr(int(Mix.NO_MIX)), tl.constexpr(int(Mix.BLEND))

GENERIC = tl.constexpr(0)
"""Stores along any strides."""
PLANAR = tl.constexpr(1)
"""Columns lie side by side; rows begin at multiples of 16 bytes and are multiples of 16 bytes long."""
INTERLEAVED = tl.constexpr(2)
"""The same, of the three channels of a pixel, then those of the next one."""


@triton.jit
def _image_at(image, words, floats, doubles, longs, tables, sums, length, tables_length, num_parts):
    """Return pointers to the record of an image as four dtypes, to its tables, and to its sums of the first round."""
    half = image * (length // 2)
    return (
        words + image * length, floats + image * length, doubles + half, longs + half,
        tables + image * tables_length, sums + image * num_parts,
    )  # fmt: skip


@triton.jit
def _pixels(number, words, TILE_HEIGHT: tl.constexpr, TILE_WIDTH: tl.constexpr):
    """Return the pixels of the tile with index ``number``.

    Returns:
        Height and width of the result; left and top of the tile; right and bottom of the tile; x and y of its pixels, [N],
        clamped to the last pixel of the result; and a mask of the pixels inside the result.
    """
    height, width = tl.load(words + _SIZE), tl.load(words + _SIZE + 1)
    across = (width + TILE_WIDTH - 1) // TILE_WIDTH
    left, top = (number % across) * TILE_WIDTH, (number // across) * TILE_HEIGHT
    number_in_tile = tl.arange(0, TILE_HEIGHT * TILE_WIDTH)
    x, y = left + number_in_tile % TILE_WIDTH, top + number_in_tile // TILE_WIDTH
    end = (tl.minimum(left + TILE_WIDTH, width), tl.minimum(top + TILE_HEIGHT, height))
    inside = (x < width) & (y < height)
    return (
        (height, width),
        (left, top),
        end,
        tl.minimum(x, width - 1),
        tl.minimum(y, height - 1),
        inside,
    )


@triton.jit
def _source(words, longs, FEATURES: tl.constexpr):
    """Return address, type and byte shift of a source image as ``sample`` takes them, from its SOURCE in a record."""
    is_float = tl.load(words + _IS_FLOAT) != 0 if _HAS_FLOATS & FEATURES else False
    return tl.load(longs), is_float, tl.load(words + _SHIFT)


@triton.jit
def _loaded(at, pixels, FEATURES: tl.constexpr):
    """Return the pixels of a tile, three float32 [N], loaded by the map and blended with the second source."""
    words, floats, doubles, longs, _, _ = at
    _, tile, _, x, y, _ = pixels
    view_at = words + _VIEW
    view = (tl.load(view_at), tl.load(view_at + 1), tl.load(view_at + 2), tl.load(view_at + 3))
    fill_at = floats + _FILL
    r, g, b = sample(
        tl.load(words + _KIND),
        tl.load(words + _BORDER),
        tl.load(words + _IS_PROJECTIVE) != 0,
        view,
        tl.load(words + _SOURCE + _ROW),
        (tl.load(fill_at), tl.load(fill_at + 1), tl.load(fill_at + 2)),
        (doubles + _BACK // 2, doubles + _BEFORE // 2, longs + _AFFINE // 2, floats + _SLOPES),
        (tl.load(words + _FRAME), tl.load(words + _FRAME + 1)),
        _source(words + _SOURCE, longs + _SOURCE // 2, FEATURES),
        tile,
        x,
        y,
        FEATURES,
    )
    if _HAS_MIX & FEATURES:
        r, g, b = _mixed(at, x, y, r, g, b, FEATURES)
    return r, g, b


@triton.jit
def _mixed(at, x, y, r, g, b, FEATURES: tl.constexpr):
    """Return the pixels of a tile blended with the second source, if the image has one; see ``program``, "2. Blend"."""
    words, floats, _, longs, _, _ = at
    mix = tl.load(words + _MIX)
    if mix != _NO_MIX:
        other = _source(words + _OTHER, longs + _OTHER // 2, FEATURES)
        r2, g2, b2 = load_at(other, tl.load(words + _OTHER + _ROW), x, y)
        if mix == _BLEND:
            own, others = tl.load(floats + _SHARE), tl.load(floats + _SHARE + 1)
            r = r * own + r2 * others
            g = g * own + g2 * others
            b = b * own + b2 * others
        else:
            window = words + _WINDOW
            cut = (y >= tl.load(window)) & (x >= tl.load(window + 1))
            cut = cut & (y < tl.load(window + 2)) & (x < tl.load(window + 3))
            r, g, b = tl.where(cut, r2, r), tl.where(cut, g2, g), tl.where(cut, b2, b)
    return r, g, b


@triton.jit
def _mean(sums, num_parts, num_pixels):
    """Return the mean over an image of N pixels from the sums of its parts.

    Parts outside the image hold 0 and change nothing.
    """
    part = tl.arange(0, 32)
    total = tl.zeros([32], tl.float32)
    for first in range(0, num_parts, 32):
        total += tl.load(sums + first + part, mask=first + part < num_parts, other=0.0)
    return tl.sum(total, axis=0) / num_pixels.to(tl.float32)


@triton.jit
def _run_stages(at, layout, means, stop, pixels, colour, FEATURES: tl.constexpr):
    """Apply the first ``stop`` stages of an image to the pixels of a tile.

    Args:
        at: Pointers from ``_image_at``.
        layout: Offsets of codes, values, holes, colours and keys in a record.
        means: Distance from the sums of one round to those of the next; number of sums of an image.
        stop: Number of stages to apply.
        pixels: Pixels of the tile from ``_pixels``.
        colour: Values of the pixels, three float32 [N].
        FEATURES: Features that some image of the batch has; see ``record``.

    Returns:
        The new values, three float32 [N].
    """
    words, floats, _, _, tables, sums = at
    codes, values, holes, colours, keys = layout
    size, tile, end, x, y, _ = pixels
    r, g, b = colour
    num_contrasts = 0
    for stage in range(stop):
        code = tl.load(words + codes + stage)
        v = floats + values + stage * stages.WIDTH
        if code == stages.SCALE:
            r, g, b = stages.limit(v, stages.scale(v, r, g, b))
        if _HAS_COLOUR & FEATURES:
            if code == stages.MATRIX:
                r, g, b = stages.limit(v, stages.matrix(v, r, g, b))
            elif code == stages.HUE:
                r, g, b = stages.hue(tl.load(v), r, g, b)
            elif code == stages.CONTRAST:
                mean = _mean(sums + num_contrasts * means[0], means[1], size[0] * size[1])
                r, g, b = stages.contrast(tl.load(v), mean, r, g, b)
                num_contrasts += 1
        if _HAS_HOLES & FEATURES:
            if code == stages.HOLES:
                places = (words + holes, floats + colours, words + keys)
                r, g, b = stages.paint_holes(v, places, size, tile, end, x, y, r, g, b)
        if _HAS_RARE & FEATURES:
            r, g, b = stages.rare(code, v, tables, r, g, b)
    return r, g, b


_VARYING = (
    "length", "codes", "values", "holes", "colours", "keys", "tables_length", "num_images", "num_parts",
)  # fmt: skip
"""Triton compiles a kernel anew where a whole number becomes 1 or a multiple of 16, but for these."""


@triton.jit(do_not_specialize=(*_VARYING, "contrasts", "round_"))
def sum_gray(
    words, floats, doubles, longs, tables, sums,
    length, codes, values, holes, colours, keys, tables_length, contrasts, round_, num_images, num_parts,
    FEATURES: tl.constexpr, TILES: tl.constexpr, TILE_HEIGHT: tl.constexpr, TILE_WIDTH: tl.constexpr,
):  # fmt: skip
    """Sum the gray of a few tiles, as it is before the image's ``round_``-th contrast stage, and store the sum.

    Args:
        words: The records, as int32.
        floats: The records, as float32.
        doubles: The records, as float64.
        longs: The records, as int64.
        tables: Lookup tables of all images, float32.
        sums: Sums of gray, float32 [R, num_images, num_parts]; those of earlier rounds are read.
        length: Length of a record, in words; ``contrasts`` and ``codes`` to ``keys`` are offsets in it.
        tables_length: Length of the tables of one image, in values.
        round_: Index of the contrast stage among those of the image, in [0, R).
        num_images: Number of images of the batch.
        num_parts: Number of Triton programs for each image.
        FEATURES: Features that some image of the batch has; see ``record``.
        TILES: Number of tiles that one program sums.
        TILE_HEIGHT: Height of a tile, in pixels.
        TILE_WIDTH: Width of a tile, in pixels.
    """
    image, part = tl.program_id(1), tl.program_id(0)
    stop = tl.load(words + image * length + contrasts + round_)
    if stop >= 0:
        at = _image_at(
            image, words, floats, doubles, longs, tables, sums, length, tables_length, num_parts
        )
        layout, means = (codes, values, holes, colours, keys), (num_images * num_parts, num_parts)
        total = tl.zeros([TILE_HEIGHT * TILE_WIDTH], tl.float32)
        for number in range(part * TILES, part * TILES + TILES):
            pixels = _pixels(number, at[0], TILE_HEIGHT, TILE_WIDTH)
            if pixels[1][1] < pixels[0][0]:
                colour = _loaded(at, pixels, FEATURES)
                r, g, b = _run_stages(at, layout, means, stop, pixels, colour, FEATURES)
                total += tl.where(pixels[5], stages.gray_of(r, g, b), 0.0)
        tl.store(at[5] + round_ * means[0] + part, tl.sum(total, axis=0))


@triton.jit
def _stored(value, TYPE: tl.constexpr):
    """Return values converted to the dtype of the result; uint8 is rounded from [0, 1] to [0, 255]."""
    return stages.steps(value).to(TYPE) if TYPE == tl.uint8 else value.to(TYPE)


@triton.jit
def _woven(r, g, b):
    """Interleave three arrays of blocks: r0 g0 b0 r1 g1 b1 ..., with blocks twice as long.

    Args:
        r: Blocks of one channel, [M, K] with M even; g and b have the same shape.

    Returns:
        Three arrays [M / 2, 2 K] that together hold this order: r0 g0, then b0 r1, then g1 b1, and so on.
    """
    r0, r1 = _even_and_odd(r)
    g0, g1 = _even_and_odd(g)
    b0, b1 = _even_and_odd(b)
    return _side_by_side(r0, g0), _side_by_side(b0, r1), _side_by_side(g1, b1)


@triton.jit
def _even_and_odd(blocks):
    return tl.split(blocks.reshape(blocks.shape[0] // 2, 2, blocks.shape[1]).permute(0, 2, 1))


@triton.jit
def _side_by_side(left, right):
    both = tl.join(left, right).permute(0, 2, 1)
    return both.reshape(left.shape[0], 2 * left.shape[1])


@triton.jit
def _store_blocks(
    out, strides, pixels, r, g, b, LAYOUT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Write a tile of WIDTH columns in blocks of 16 bytes (BLOCK values), in the layout PLANAR or INTERLEAVED."""
    size, corner, _, _, _, _ = pixels  # Triton 3.6 reads no targets in targets
    height, width = size
    left, top = corner
    by_channel, by_row, _ = strides
    r, g, b = r.reshape(r.shape[0], 1), g.reshape(g.shape[0], 1), b.reshape(b.shape[0], 1)
    NUM: tl.constexpr = r.shape[0] // BLOCK
    first = tl.arange(0, NUM) * BLOCK
    column, line = left + first % WIDTH, top + first // WIDTH
    there = (line < height) & (column < width)
    if LAYOUT == INTERLEAVED:
        r, g, b = _woven(*_woven(r, g, b))
        if BLOCK >= 8:
            r, g, b = _woven(r, g, b)
        if BLOCK >= 16:
            r, g, b = _woven(r, g, b)
        by_channel = BLOCK
        column *= 3
    else:
        r, g, b = r.reshape(NUM, BLOCK), g.reshape(NUM, BLOCK), b.reshape(NUM, BLOCK)
    within = tl.arange(0, BLOCK)[None, :]
    at = out + (line * by_row + column)[:, None] + within
    mask = there[:, None] & (within >= 0)
    tl.store(at, r, mask=mask)
    tl.store(at + by_channel, g, mask=mask)
    tl.store(at + 2 * by_channel, b, mask=mask)


@triton.jit
def _store(at, pixels, colour, TYPE: tl.constexpr, LAYOUT: tl.constexpr, WIDTH: tl.constexpr):
    """Convert a tile of WIDTH columns to the dtype of the result and write it."""
    words, _, _, longs, _, _ = at
    _, corner, _, _, _, inside = pixels
    left, top = corner
    r, g, b = _stored(colour[0], TYPE), _stored(colour[1], TYPE), _stored(colour[2], TYPE)
    out = tl.load(longs + _OUT // 2).to(tl.pointer_type(TYPE))
    by_channel = tl.load(words + _OUT_STRIDES).to(tl.int64)
    by_row = tl.load(words + _OUT_STRIDES + 1)
    by_column = tl.load(words + _OUT_STRIDES + 2)
    if LAYOUT == GENERIC:
        number = tl.arange(0, r.shape[0])
        there = out + ((top + number // WIDTH) * by_row + (left + number % WIDTH) * by_column)
        tl.store(there, r, mask=inside)
        tl.store(there + by_channel, g, mask=inside)
        tl.store(there + 2 * by_channel, b, mask=inside)
    else:
        BLOCK: tl.constexpr = 128 // TYPE.primitive_bitwidth
        out, by_row = tl.multiple_of(out, 16), tl.multiple_of(by_row, BLOCK)
        by_channel = tl.multiple_of(by_channel, BLOCK)
        strides = (by_channel, by_row, by_column)
        _store_blocks(out, strides, pixels, r, g, b, LAYOUT, WIDTH, BLOCK)


@triton.jit(do_not_specialize=(*_VARYING, "num_stages"))
def run_pass(
    words, floats, doubles, longs, tables, sums,
    length, codes, values, holes, colours, keys, tables_length, num_stages, num_images, num_parts,
    FEATURES: tl.constexpr, TYPE: tl.constexpr, LAYOUT: tl.constexpr, TILE_HEIGHT: tl.constexpr, TILE_WIDTH: tl.constexpr,
):  # fmt: skip
    """Carry out a full pass for one tile; see ``sum_gray`` for arguments that are not listed.

    Args:
        num_stages: Number of stages of the program.
        TYPE: Dtype of the results.
        LAYOUT: Memory layout of the results: GENERIC, PLANAR or INTERLEAVED.
    """
    image = tl.program_id(1)
    at = _image_at(
        image, words, floats, doubles, longs, tables, sums, length, tables_length, num_parts
    )
    pixels = _pixels(tl.program_id(0), at[0], TILE_HEIGHT, TILE_WIDTH)
    if pixels[1][1] < pixels[0][0]:
        layout, means = (codes, values, holes, colours, keys), (num_images * num_parts, num_parts)
        colour = _loaded(at, pixels, FEATURES)
        colour = _run_stages(at, layout, means, num_stages, pixels, colour, FEATURES)
        _store(at, pixels, colour, TYPE, LAYOUT, TILE_WIDTH)
