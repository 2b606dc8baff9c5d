"""Program, the arrays that tell a kernel what one fused pass does to each image of a batch.

For every image, on its own: (1) load a pixel of the result from the source, along a map, as red, green and blue
float32 in [0, 1]; (2) blend it with the second source, if there is one; (3) carry out the stages in turn;
(4) store the pixel. The kernels of the CPU (``cpu``) and of the GPU (``triton``) follow this text; where it names float64, those
of the GPU may compute affine maps in units of 2**-32 pixels, see ``triton/record.py``.

1. Load
-------
Let (y, x) be a pixel of the result, ``size`` the result's height and width, and ``view`` the rectangle (top, left, height,
width) of the source that is seen. ``back`` is the matrix, row by row, from continuous coordinates of the result (a pixel in
column j covers [j, j + 1)) to those of the view, or of the frame between. In float64::

    X = back[0] * (x + 0.5) + (back[1] * (y + 0.5) + back[2])
    Y = back[3] * (x + 0.5) + (back[4] * (y + 0.5) + back[5])
    Z = back[6] * (x + 0.5) + (back[7] * (y + 0.5) + back[8])

``kind`` says how the value is made of the pixels of the view:

- WHOLE: the pixel (floor(Y), floor(X)). ``back`` is a mirroring or quarter turn and a shift by whole pixels, so X - 0.5
  and Y - 0.5 are whole numbers.
- NEAREST: the same, with any matrix; X / Z and Y / Z where ``back[6:]`` is not (0, 0, 1).
- BILINEAR: with u = X - 0.5 and v = Y - 0.5 (X / Z - 0.5 and Y / Z - 0.5 where ``back[6:]`` is not (0, 0, 1)), the
  pixels at floor(v) and floor(v) + 1, floor(u) and floor(u) + 1, weighted by the fractions of v and u.

``border`` says what stands for a pixel beside the view. CONSTANT: ``fill``. EDGE: the nearest pixel of the view. REFLECT: the
view mirrored without its edge (dcb|abcd|cba), again and again. SYMMETRIC: the same with its edge (cba|abcd|dcb). A
coordinate that is NaN gives ``fill`` with every border. CONSTANT_TWICE, of BILINEAR alone, applies the weight of the fill
twice: with c, the sum of the weights of the pixels inside, and s, their weighted sum, the value is ``(s - fill) * c + fill``.

``frame`` is the height and width of the image between two warps that are sampled as one (BILINEAR with CONSTANT,
CONSTANT_TWICE or EDGE); (0, 0) means that there is one warp at most. With a frame ``back`` leads to that image and ``before``
from it to the view. In float64, with x = X / Z and y = Y / Z::

    cover = clamp(min(x, width - x) + 0.5, 0, 1) * clamp(min(y, height - y) + 0.5, 0, 1)
    (X, Y, Z) = before (clamp(x, 0.5, width - 0.5), clamp(y, 0.5, height - 0.5), 1)

and the value at (X, Y, Z), made as above, becomes ``value * cover + fill * (1 - cover)``, with CONSTANT_TWICE
``(value * cover - fill) * cover + fill``; with EDGE it stays. Where x or y is NaN it is ``fill``.

The values of a uint8 source are divided by 255; WHOLE and NEAREST give the correctly rounded quotient.

2. Blend
--------
``mix`` says how ``others[b]`` is mixed in: an image of the result's size, as it is at this step of the recipe.
The map of an image with a ``mix`` is the identity on the full source.

- NO_MIX: it is not.
- BLEND: value * share[0] + other * share[1], products rounded before the sum.
- CUT: other inside the rectangle ``window`` (top, left, bottom, right; half open), value elsewhere.

3. Stages
---------
Image b has the stages ``codes[b, s]`` for s = 0, 1, ... with the arguments ``v = values[b, s]``; see Stage. NOTHING is
skipped. All in float32. "clamp" is min(max(value, low), high).

4. Store
--------
Floating types get the value, rounded to nearest even; uint8 gets round(255 * value), nearest even, clamped to [0, 255].

Kernels
-------
``run_program(program, images, others, outs)`` of ``cpu`` and of ``triton`` carries it out, one call per pass:

- images: B tensors [h, w, 3], uint8 or float32, not necessarily all of one type or size; strides (any, 3, 1).
- others: B tensors or None, the same, of the result's size; None altogether where no image has a ``mix``.
- outs: B tensors [3, h', w'], all of one dtype (uint8, float16, bfloat16, float32), any strides. They do not overlap with
  images or others.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NUM_VALUES = 18  # of `Stage.MATRIX`, which has the most: 12 factors, 3 lower and 3 upper limits


class Kind(IntEnum):
    """How a value is computed from the pixels of the source."""

    WHOLE = 0
    NEAREST = 1
    BILINEAR = 2


class Border(IntEnum):
    """What is read in place of pixels outside the view."""

    CONSTANT = 0
    EDGE = 1
    REFLECT = 2
    SYMMETRIC = 3
    CONSTANT_TWICE = 4


class Mix(IntEnum):
    """How a second image is mixed into the first."""

    NO_MIX = 0
    BLEND = 1
    CUT = 2


class Stage(IntEnum):
    """A function that changes the value (r, g, b) of a pixel; v are its arguments."""

    NOTHING = 0

    SCALE = 1
    """As MATRIX; all of v[:12] but v[0], v[5], v[10] (factors) and v[3], v[7], v[11] (summands) are 0."""

    MATRIX = 2
    """c-th channel = clamp(v[4c] * r + v[4c + 1] * g + v[4c + 2] * b + v[4c + 3], v[12 + c], v[15 + c]).

    The limits are -inf and inf where nothing is clamped.
    """

    CONTRAST = 3
    """clamp(value * v[0] + mean * (1 - v[0]), 0, 1), where mean is that of 0.299 r + 0.587 g + 0.114 b over all pixels
    of the result as they are before this stage: the one stage that needs all pixels at once."""

    HUE = 4
    """Turn the hue by v[0] turns, value and chroma stay (gray stays gray). With high = max(r, g, b), low = min(r, g, b),
    chroma = high - low and

        h = (g - b) / chroma        where r is high,
        h = (b - r) / chroma + 2    else where g is high,
        h = (r - g) / chroma + 4    else,

    and h' = (h + 6 v[0]) modulo 6, in [0, 6): r = low + chroma * clamp(|h' - 3| - 1, 0, 1),
    g = low + chroma * clamp(2 - |h' - 2|, 0, 1), b = low + chroma * clamp(2 - |h' - 4|, 0, 1)."""

    GAMMA = 5
    """max(value, 0) to the power of v[0]."""

    SOLARIZE = 6
    """1 - value where value >= v[0]."""

    TABLE = 7
    """``tables[b, int(v[0]), channel, k]`` with k = 255 * value rounded to nearest even, clamped to [0, 255]."""

    ROUND = 8
    """k / 255, with k as for TABLE."""

    FLOOR = 9
    """k / 255, with k = floor(255 * value + v[0]) clamped to [0, 255]."""

    GRAY_MAX = 10
    """All channels are the largest one."""

    GRAY_MIDDLE = 11
    """All channels are (largest + smallest) / 2."""

    HOLES = 12
    """Inside the rectangles ``holes[b, n]`` for n from int(v[0]), int(v[1]) of them (top, left, bottom, right; half open;
    empty ones hold nothing; later ones cover earlier ones) the values are, by int(v[2]):

    0: ``colours[b, n]``;
    1: uniform noise of the key ``keys[b, int(v[3])]``: ``gpu_aug.random_fields.uniform_field(key, (3, H, W))`` of the result's
       H and W."""


class Program(NamedTuple):
    """The arrays for B images, all on the host and C-contiguous; the module docstring says what each means.

    Attributes:
        codes: Stages, int32 [B, S], values of Stage.
        values: Arguments of the stages, float32 [B, S, NUM_VALUES].
        kind: Interpolation, int32 [B], values of Kind.
        back: Matrices from the result to the view, or to the frame between, float64 [B, 9].
        frame: Height and width of the frame between two warps, int32 [B, 2]; 0 if there is no frame.
        before: Matrices from the frame between to the view, float64 [B, 9]; ignored if there is no frame.
        view: Rectangle of the source that is seen (top, left, height, width), int32 [B, 4].
        border: Border of the view, int32 [B], values of Border.
        fill: Colour of a constant border, float32 [B, 3].
        size: Height and width of the result, int32 [B, 2].
        mix: How a second image is mixed in, int32 [B], values of Mix.
        share: Weights of the two images for BLEND, float32 [B, 2].
        window: Rectangle for CUT (top, left, bottom, right), int32 [B, 4].
        tables: Lookup tables, float32 [B, T, 3, 256], already divided by 255; T may be 0.
        holes: Rectangles (top, left, bottom, right), int32 [B, N, 4]; N may be 0.
        colours: Colours of the rectangles, float32 [B, N, 3].
        keys: Keys of noise, uint32 [B, K, 2]; K is at least 1, for kernels read a key for every HOLES, noise or not.
    """

    codes: NDArray[np.int32]
    values: NDArray[np.float32]
    kind: NDArray[np.int32]
    back: NDArray[np.float64]
    frame: NDArray[np.int32]
    before: NDArray[np.float64]
    view: NDArray[np.int32]
    border: NDArray[np.int32]
    fill: NDArray[np.float32]
    size: NDArray[np.int32]
    mix: NDArray[np.int32]
    share: NDArray[np.float32]
    window: NDArray[np.int32]
    tables: NDArray[np.float32]
    holes: NDArray[np.int32]
    colours: NDArray[np.float32]
    keys: NDArray[np.uint32]


VIEW_FIELD = Program._fields.index("view")
"""Compiled functions write ``program[VIEW_FIELD]``: Numba takes ``program.view`` for the method of arrays."""
