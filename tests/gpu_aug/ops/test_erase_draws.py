"""What is painted over, against the samplers of Albumentations and the authors' GridMask."""

import math

import albumentations as A
import numpy as np
import pytest
import torch

from gpu_aug import (
    CoarseDropout,
    GridDropout,
    GridMask,
    HorizontalFlip,
    Operation,
    PixelDropout,
    RandomErasing,
    Recipe,
    Resize,
)
from tests.support.engines import render
from tests.support.laws import NUM, albumentations_draws, apart, draw, imported

SIZE = (41, 57)


def sides(holes: np.ndarray) -> dict[str, np.ndarray]:
    """What is known of rectangles [n, 4] (top, left, bottom, right)."""
    top, left, bottom, right = holes.T
    return {
        "top": top,
        "left": left,
        "height": bottom - top,
        "width": right - left,
        "area": (bottom - top) * (right - left),
    }


HOLES = [
    A.CoarseDropout((1, 5)),
    A.CoarseDropout((2, 3), (3, 9), (30, 80)),
    A.CoarseDropout((2, 2), (0.0, 0.9), (0.3, 0.6)),
    A.Erasing(),
    A.Erasing((0.1, 0.9), (0.9, 1.5)),
    A.XYMasking((1, 3), 2, (5, 20), (0, 9)),
    A.XYMasking(0, (2, 2), 0, (3, 3)),
]


@pytest.mark.parametrize("transform", HOLES, ids=lambda t: repr(t)[:60])
def test_holes_of_albumentations_keep_their_law(transform):
    """Number, place and size of the rectangles have the distribution of the class itself."""
    drawn = [p["holes"].reshape(-1, 4) for p in albumentations_draws(transform, SIZE)]
    theirs = np.concatenate(drawn)[:, [1, 0, 3, 2]]
    # Rectangles of our own that were not drawn are all zeros; Albumentations has none such here.
    holes = draw(imported(transform), SIZE)["holes"]
    ours = holes[holes.any(axis=2)]

    assert apart(holes.any(axis=2).sum(axis=1), [len(h[h.any(axis=1)]) for h in drawn]) < 1
    expected = sides(theirs[theirs.any(axis=1)])
    for name, values in sides(ours).items():
        assert apart(values, expected[name]) < 1, name


GRIDS = [
    A.GridDropout(),
    A.GridDropout(0.3, unit_size_range=(7, 15)),
    A.GridDropout(0.6, holes_number_xy=(5, 4)),
    A.GridDropout(0.6, random_offset=False, holes_number_xy=(5, 4), shift_xy=(2, 1)),
]


@pytest.mark.parametrize("transform", GRIDS, ids=lambda t: repr(t)[:70])
def test_grids_of_albumentations_keep_their_law(transform):
    """Number of cells, and place and size of the first, a middle and the last rectangle."""
    drawn = [p["holes"][:, [1, 0, 3, 2]] for p in albumentations_draws(transform, SIZE, 800)]
    params = draw(imported(transform), SIZE, 800)
    ours = [holes[holes.any(axis=1)] for holes in params["holes"]]

    assert apart([len(h) for h in ours], [len(h) for h in drawn]) < 1
    for place in (0, 5, -1):
        expected = sides(np.array([h[place] for h in drawn]))
        for name, values in sides(np.array([h[place] for h in ours])).items():
            assert apart(values, expected[name]) < 1, (place, name)


def gridmask(height: int, width: int, d: int, st_h: int, st_w: int, ratio: float) -> np.ndarray:
    """The authors' code with rotate=1 and mode=1: what is kept, 0 or 1."""
    hh = math.ceil(math.sqrt(height * height + width * width))
    kept = math.ceil(d * ratio)
    mask = np.ones((hh, hh), np.float32)
    for i in range(-1, hh // d + 1):
        s, t = d * i + st_h, d * i + st_h + kept
        mask[max(min(s, hh), 0) : max(min(t, hh), 0), :] *= 0
    for i in range(-1, hh // d + 1):
        s, t = d * i + st_w, d * i + st_w + kept
        mask[:, max(min(s, hh), 0) : max(min(t, hh), 0)] *= 0
    top, left = (hh - height) // 2, (hh - width) // 2
    return 1 - mask[top : top + height, left : left + width]


def made_of(image: torch.Tensor, operation: Operation) -> torch.Tensor:
    """What an operation makes of uint8 [H, W, 3], as float32 [3, H, W]."""
    recipe = Recipe([Resize(tuple(image.shape[:2])), HorizontalFlip(0), operation])
    return render("kornia", recipe, image[None])[0]


def painted(params: dict, row: int, size: tuple[int, int]) -> np.ndarray:
    mask = np.ones(size)
    for top, left, bottom, right in params["holes"][row]:
        mask[top:bottom, left:right] = 0
    return mask


@pytest.mark.parametrize("size", [(41, 57), (90, 30)])
def test_gridmask_is_the_authors(size):
    """Every mask is one that the authors' code makes, and all periods and shifts occur."""
    operation = GridMask((5, 9), 0.55, p=1.0)
    params = draw(operation, size, 400)
    possible = {
        gridmask(*size, d, st_h, st_w, 0.55).tobytes(): (d, st_h, st_w)
        for d in range(5, 9)
        for st_h in range(d)
        for st_w in range(d)
    }

    seen = {possible[painted(params, row, size).astype(np.float32).tobytes()] for row in range(400)}

    assert {d for d, _, _ in seen} == {5, 6, 7, 8}
    assert {(st_h, st_w) for d, st_h, st_w in seen if d == 5} == {
        (a, b) for a in range(5) for b in range(5)
    }


def test_gridmask_stripes_are_the_other_half():
    """The stripes are painted where the squares are kept."""
    squares = draw(GridMask((5, 9), p=1.0), SIZE, 20)
    stripes = draw(GridMask((5, 9), mode="stripes", p=1.0), SIZE, 20)

    for row in range(20):
        assert (painted(squares, row, SIZE) + painted(stripes, row, SIZE) == 1).all()


def test_a_draw_with_keys_does_not_depend_on_the_batch():
    """The rectangles of one image are the same beside larger images."""
    operation = GridDropout(0.4, unit_size_range=(5, 9), p=1.0)
    u = np.random.default_rng(0).random((3, operation.num_uniforms))
    sizes = np.array([[30, 40], [90, 80], [12, 13]])
    together = operation.draw(u, sizes)["holes"]

    for row in range(3):
        alone = operation.draw(u[row : row + 1], sizes[row : row + 1])["holes"][0]
        assert (together[row, : len(alone)] == alone).all()
        assert not together[row, len(alone) :].any()


@pytest.mark.parametrize("others", [(30, 40), (90, 80)])
def test_a_replaced_row_may_have_more_or_fewer_rectangles(others):
    """Draws.replaced makes room for them, and leaves nothing of the row before."""
    recipe = Recipe([GridDropout(0.4, unit_size_range=(5, 9), p=1.0)])
    draws = recipe.draw(0, 0, np.arange(2), np.array([others, others]))
    one = recipe.draw(0, 0, np.arange(7, 8), np.array([[60, 60]]))
    before = draws.params[0]["holes"][1].copy()

    draws = draws.replaced(0, one)

    first, second = draws.params[0]["holes"]
    expected = one.params[0]["holes"][0]
    assert (first[: len(expected)] == expected).all()
    assert not first[len(expected) :].any()
    assert (second[: len(before)] == before).all()


def test_pixel_dropout_paints_its_share():
    """A tenth of the pixels is painted, in all channels or in each by itself."""
    image = torch.full((200, 300, 3), 255, dtype=torch.uint8)
    for per_channel, together in ((False, 0.1), (True, 0.001)):
        dropped = made_of(image, PixelDropout(0.1, per_channel=per_channel, p=1.0)) == 0
        assert dropped.float().mean().item() == pytest.approx(0.1, abs=0.01)
        assert dropped.all(0).float().mean().item() == pytest.approx(together, abs=0.01)


def test_grid_shuffle_lets_equal_tiles_change_places():
    """A tile and its source have one size, and of equal tiles each is as often the source."""
    transform = A.RandomGridShuffle((2, 3), p=1.0)
    params = draw(imported(transform), (42, 57), NUM)
    uneven = draw(imported(transform), SIZE, 200)

    for drawn in (params, uneven):
        shapes = [drawn[name][..., 2:] - drawn[name][..., :2] for name in ("tiles", "sources")]
        assert (shapes[0] == shapes[1]).all()
    first = params["sources"][:, 0, :2] // (21, 19) @ np.array([3, 1])
    theirs = [p["mapping"][0] for p in albumentations_draws(transform, (42, 57))]
    assert apart(first, theirs) < 1
    assert set(first.tolist()) == set(range(6))


def test_random_values_are_uniform_or_normal():
    """Noise in the holes has the law that the fill names."""
    rng = np.random.default_rng(0)
    uniform = CoarseDropout((1, 1), (0.5, 0.6), (0.5, 0.6), fill="random", p=1.0)
    for operation, law in (
        (RandomErasing(1.0, scale=(0.3, 0.3), value="random"), rng.standard_normal(5000)),
        (uniform, rng.random(5000)),
    ):
        result = made_of(torch.zeros(80, 80, 3, dtype=torch.uint8), operation)
        values = result[result != 0].numpy()
        assert len(values) > 3000
        assert apart(values, law) < 1 < apart(values, 0.7 * law)
