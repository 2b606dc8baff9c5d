"""Warps draw what their sources draw: from the same uniform numbers come the same matrices and maps.

The sources are run with their random numbers replaced by ours, in the order in which they ask.
"""

import warnings
from functools import partial
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from scipy import stats
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import _geometry as tv_geometry

from gpu_aug import (
    Affine,
    ElasticDistortion,
    ElasticTransform,
    GridDistortion,
    OpticalDistortion,
    Perspective,
    PiecewiseAffine,
    RandomAffine,
    RandomPerspective,
    RandomRotation,
    Rotate,
    SafeRotate,
    ThinPlateSpline,
)
from gpu_aug.ops.geometric.spatial import Remap
from gpu_aug.ops.geometric.warps import WarpWithBorder, normals
from gpu_aug.random_fields import normal_field, uniform_field

CPU = torch.device("cpu")
SIZE = (61, 84)
NUM = 40
IMAGE = np.zeros((*SIZE, 3), np.float32)


class Numbers:
    """Stands in for random.Random and for numpy's generator: gives uniform numbers in turn."""

    def __init__(self, u: Any, deviates: Any = None) -> None:
        self.u, self.deviates = iter(np.asarray(u).tolist()), deviates

    def uniform(self, low: float, high: float, size: Any = None) -> Any:
        """Uniform between the ends."""
        return low + (high - low) * (next(self.u) if size is None else self.deviates(size))

    def randint(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + int(next(self.u) * (high - low + 1))

    def choice(self, items: list[Any]) -> Any:
        """One of the items."""
        return items[int(next(self.u) * len(items))]

    def normal(self, _mean: float, scale: float, shape: Any) -> np.ndarray:
        """Normal deviates, scaled."""
        return self.deviates(shape) * scale

    def standard_normal(self, shape: Any, **_: Any) -> np.ndarray:
        """Normal deviates."""
        return self.deviates(shape)


def albumentations_params(call: Any, u: Any, deviates: Any = None) -> dict[str, Any]:
    """What a transform of Albumentations draws from these numbers."""
    call.py_random = call.random_generator = Numbers(u, deviates)
    data = {"image": IMAGE}
    return call.get_params_dependent_on_data(call.update_transform_params({}, data), data)


def draws(operation: WarpWithBorder) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    u = np.random.default_rng(0).random((NUM, operation.num_uniforms))
    return u, operation.draw(u, np.tile(SIZE, (NUM, 1)))


def in_order(u: np.ndarray, *, sides: bool) -> np.ndarray:
    """Shift, shear, scales and angle in the order in which Albumentations asks for them."""
    places = [1, 2, 3, 4, 5, 7, 6, 8, 9] if sides else [1, 2, 3, 4, 7, 8, 9]
    return u[places]


AFFINES = {
    "scale": ({"scale": (0.5, 1.5)}, False),
    "ratio": ({"scale": (0.5, 1.5), "keep_ratio": True}, False),
    "balanced": ({"scale": (0.5, 3), "balanced_scale": True}, True),
    # A range on one side of 1 leaves nothing to choose.
    "growing": ({"scale": (1, 3), "balanced_scale": True}, False),
    "pixels": ({"translate_px": {"x": (-9, 9), "y": (2, 30)}, "rotate": 30}, False),
    "percent": ({"translate_percent": (-0.3, 0.3), "rotate": (-180, 180)}, False),
    "shear": ({"shear": {"x": (-30, 30), "y": (-10, 20)}, "scale": {"x": 0.8, "y": 1.3}}, False),
    "all": (
        {"shear": (-20, 20), "rotate": (-90, 90), "scale": (0.5, 1.5), "translate_px": 4},
        False,
    ),
    "fitted": ({"shear": (-20, 20), "rotate": (-90, 90), "fit_output": True}, False),
    "fitted quarter": ({"rotate": (90, 90), "fit_output": True}, False),
    "fitted nothing": ({"fit_output": True}, False),
}


@pytest.mark.parametrize("label", AFFINES)
def test_affine_has_the_matrices_of_albumentations(label):
    """Composition, signs, rounding, and with fit_output the size."""
    fields, balanced = AFFINES[label]
    u, params = draws(Affine(**fields))
    for row in range(NUM):
        numbers = in_order(u[row], sides=balanced)
        wanted = albumentations_params(A.Affine(**fields), numbers)
        np.testing.assert_allclose(params["matrix"][row], wanted["matrix"], atol=1e-9)
        if "shape" in params:
            same = np.allclose(wanted["matrix"], np.eye(3))
            size = SIZE if same else tuple(wanted["output_shape"])
            assert tuple(params["shape"][row]) == size


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        (Rotate((-180, 180)), A.Rotate((-180, 180), crop_border=True)),
        (SafeRotate((-170, 100)), A.SafeRotate((-170, 100))),  # with its half pixel
    ],
)
def test_rotations_have_the_matrices_of_albumentations(operation, call):
    u, params = draws(operation)
    for row in range(NUM):
        wanted = albumentations_params(call, u[row, 1:])
        np.testing.assert_allclose(params["matrix"][row], wanted["matrix"], atol=1e-9)


def test_rotate_has_the_crops_of_albumentations():
    """The matrix is followed by its crop."""
    u, cropped = draws(Rotate((-180, 180), crop_border=True))
    for row in range(NUM):
        wanted = albumentations_params(A.Rotate((-180, 180), crop_border=True), u[row, 1:])
        start = np.array([wanted["x_min"], wanted["y_min"]])
        stop = np.array([wanted["x_max"], wanted["y_max"]])
        assert cropped["shape"][row].tolist() == (stop - start)[::-1].tolist()
        np.testing.assert_allclose(
            cropped["matrix"][row, :2, 2], wanted["matrix"][:2, 2] - start, atol=1e-9
        )


@pytest.mark.parametrize("fit_output", [False, True])
@pytest.mark.parametrize("keep_size", [False, True])
def test_perspective_has_the_matrices_of_albumentations(keep_size, fit_output):
    """The corners' law, the order of steps, and sizes."""
    operation = Perspective((0.02, 0.3), keep_size=keep_size, fit_output=fit_output)
    u, params = draws(operation)
    for row in range(NUM):
        jitter = normals(u[row : row + 1, 2:])
        call = A.Perspective((0.02, 0.3), keep_size=keep_size, fit_output=fit_output)
        wanted = albumentations_params(call, u[row, 1:2], lambda shape, z=jitter: z.reshape(shape))
        size = np.array([wanted["max_width"], wanted["max_height"], 1])
        scale = np.diag(np.array([SIZE[1], SIZE[0], 1]) / size) if keep_size else np.eye(3)
        # Matrices of points that are known up to a factor, with OpenCV's points in float32.
        mine, theirs = params["matrix"][row], scale @ wanted["matrix"]
        np.testing.assert_allclose(mine / mine[2, 2], theirs / theirs[2, 2], rtol=2e-4, atol=1e-4)
        if not keep_size:
            assert params["shape"][row].tolist() == size[1::-1].tolist()


def maps(make: Any, u: Any, deviates: Any = None) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is slow
        drawn = albumentations_params(make(), u, deviates)
    return np.stack([drawn["map_x"], drawn["map_y"]])


def own_maps(operation: Remap, params: dict[str, np.ndarray], row: int) -> np.ndarray:
    one = {name: values[row : row + 1] for name, values in params.items()}
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    return operation.displacement(one, SIZE, CPU)[0].numpy() + np.stack([x, y])


Drawn = tuple[np.ndarray, Any]


def uniform_numbers(u: np.ndarray) -> Drawn:
    """The numbers that a class asks for, if it asks for no normal deviates."""
    return u[1:], None


def numbers_of_points(u: np.ndarray) -> Drawn:
    """Numbers of rows and columns are drawn too."""
    z = normals(u[None, 4:]).reshape(-1, 2)[:, ::-1]  # (y, x)
    return u[1:4], lambda shape: z[: shape[0] * shape[1]].reshape(shape)


def numbers_of_spline(u: np.ndarray) -> Drawn:
    z = normals(u[None, 2:])
    return u[1:2], lambda shape: z.reshape(shape)


GRIDS = [  # also where the steps do not divide the sides
    {"num_steps": 5},
    {"num_steps": 1, "distort_limit": (-0.9, 0.9)},
    {"num_steps": 7, "distort_limit": (0.1, 0.8), "normalized": False},
    {"num_steps": 50},
]
MODES = ["camera", "fisheye"]  # the half pixel of the camera
POINTS = [((0.03, 0.2), False), ((3.0, 9.0), True)]
SPLINES = [((0.2, 0.4), num) for num in (2, 3, 4)]
MAPS = [
    *((GridDistortion(**f), partial(A.GridDistortion, **f), uniform_numbers, 2e-5) for f in GRIDS),
    *(
        (
            OpticalDistortion((-0.9, 0.9), mode),
            partial(A.OpticalDistortion, (-0.9, 0.9), mode=mode),
            uniform_numbers,
            5e-5,
        )
        for mode in MODES
    ),
    *(
        (
            PiecewiseAffine(scale, (2, 5), (3, 4), absolute_scale=absolute),
            partial(A.PiecewiseAffine, scale, (2, 5), (3, 4), absolute_scale=absolute),
            numbers_of_points,
            2e-4,
        )
        for scale, absolute in POINTS
    ),
    # Albumentations computes its two kernels in float32.
    *(
        (ThinPlateSpline(*f), partial(A.ThinPlateSpline, *f), numbers_of_spline, 5e-3)
        for f in SPLINES
    ),
]


@pytest.mark.parametrize(("operation", "make", "numbers", "tolerance"), MAPS)
def test_fields_have_the_maps_of_albumentations(operation, make, numbers, tolerance):
    u, params = draws(operation)
    for row in range(5):
        wanted = maps(make, *numbers(u[row]))
        np.testing.assert_allclose(own_maps(operation, params, row), wanted, atol=tolerance)


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_elastic_distortion_has_the_maps_of_albumentations(approximate, same, noise):
    """From the same field of noise."""
    fields = {"approximate": approximate, "same_dxdy": same, "noise_distribution": noise}
    operation = ElasticDistortion(100.0, 6.0, **fields)
    _, params = draws(operation)
    for row in range(3):
        key = params["key"][row : row + 1]

        def field(shape: Any, key: Any = key) -> np.ndarray:
            rows = (shape[0] * shape[1], shape[2])
            made = (normal_field if noise == "gaussian" else uniform_field)(key, rows, CPU)
            return made.numpy().reshape(shape)

        wanted = maps(partial(A.ElasticTransform, 100.0, 6.0, **fields), [], field)
        np.testing.assert_allclose(own_maps(operation, params, row), wanted, atol=1e-4)


@pytest.fixture
def torch_numbers(monkeypatch):
    """Return a function that makes torch give these numbers where torchvision asks for any."""

    class Empty:
        def uniform_(self, low: float, high: float) -> torch.Tensor:
            return torch.tensor(low + (high - low) * next(self.u), dtype=torch.float64)

    def put(u: Any) -> None:
        Empty.u = iter(np.asarray(u).tolist())
        monkeypatch.setattr(torch, "empty", lambda *_: Empty())
        monkeypatch.setattr(
            torch, "randint", lambda low, high, **_: low + int(next(Empty.u) * (high - low))
        )

    return put


def centered(matrix: np.ndarray) -> np.ndarray:
    """The matrix between points counted from the middle of the image."""
    shift = np.eye(3)
    shift[:2, 2] = (SIZE[1] - 1) / 2, (SIZE[0] - 1) / 2
    return np.linalg.inv(shift) @ matrix @ shift


@pytest.mark.parametrize("center", [None, [10, 50.5]])
def test_random_affine_has_the_matrices_of_torchvision(monkeypatch, torch_numbers, center):
    """Composition, signs, the centre, and whole pixels."""
    fields = {"translate": (0.2, 0.3), "scale": (0.5, 1.5), "shear": (-20, 20, -10, 30)}
    u, params = draws(RandomAffine((-180, 90), **fields, center=center))
    for row in range(NUM):
        # Angle, two shifts, scale, two shears: the order is ours.
        with monkeypatch.context():
            torch_numbers(u[row, 1:])
            drawn = v2.RandomAffine((-180, 90), **fields).make_params([torch.zeros(3, *SIZE)])
            monkeypatch.undo()
        middle = [0, 0] if center is None else [center[0] - SIZE[1] / 2, center[1] - SIZE[0] / 2]
        back = tv_geometry._get_inverse_affine_matrix(
            middle, drawn["angle"], drawn["translate"], drawn["scale"], drawn["shear"]
        )
        mine = np.linalg.inv(centered(params["matrix"][row]))[:2].ravel()
        np.testing.assert_allclose(mine, back, atol=1e-9)


def test_random_perspective_has_the_coefficients_of_torchvision(monkeypatch, torch_numbers):
    """Corners by whole pixels."""
    u, params = draws(RandomPerspective(0.6))
    forward = RandomPerspective(0.6).forward(params, np.tile(SIZE, (NUM, 1)))
    for row in range(NUM):
        with monkeypatch.context():
            torch_numbers(u[row, 1:])
            drawn = v2.RandomPerspective(0.6).make_params([torch.zeros(3, *SIZE)])
            monkeypatch.undo()
        back = np.linalg.inv(forward[row])
        mine = (back / back[2, 2]).ravel()[:8]
        np.testing.assert_allclose(mine, drawn["coefficients"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("angle", [0.0, 17.0, 90.0, 123.4, 180.0, 270.0, -33.3])
@pytest.mark.parametrize("center", [None, (5.0, 60.0)])
def test_expanded_rotations_have_the_sizes_of_torchvision(angle, center):
    """Its rule computes in float32, and quarter turns are exact."""
    operation = RandomRotation((angle, angle), expand=True, center=center)
    _, params = draws(operation)
    wanted = tv_geometry.rotate_image(
        torch.zeros(1, *SIZE), angle, expand=True, center=center and list(center)
    )
    assert params["shape"][0].tolist() == list(wanted.shape[1:])
    assert np.unique(operation.possible_sizes(np.array([SIZE])), axis=0).tolist() == [
        list(wanted.shape[1:])
    ]


@pytest.mark.parametrize("sigma", [(4.0, 2.0), (0.0, 0.0)])
def test_elastic_transform_has_the_displacements_of_torchvision(monkeypatch, sigma):
    """From the same field of noise."""
    operation = ElasticTransform((80.0, 30.0), sigma)
    _, params = draws(operation)
    for row in range(3):
        noise = uniform_field(params["key"][row : row + 1], (2, *SIZE), CPU)
        planes = iter(noise[0])
        monkeypatch.setattr(torch, "rand", lambda *_, planes=planes: next(planes)[None, None])
        call = v2.ElasticTransform([80.0, 30.0], list(sigma))
        wanted = call.make_params([torch.zeros(3, *SIZE)])["displacement"][0].numpy()
        monkeypatch.undo()
        pixels = wanted.transpose(2, 0, 1) * np.array([SIZE[1] / 2, SIZE[0] / 2])[:, None, None]
        one = {name: values[row : row + 1] for name, values in params.items()}
        mine = operation.displacement(one, SIZE, CPU)[0].numpy()
        np.testing.assert_allclose(mine, pixels, atol=1e-4)


def test_normal_numbers_are_normal():
    """Box and Muller's law, and no dependence within a pair."""
    z = normals(np.random.default_rng(0).random((20000, 4)))
    assert stats.kstest(z.ravel(), "norm").pvalue > 0.01
    assert np.abs(np.corrcoef(z.T) - np.eye(4)).max() < 0.03
    assert stats.kstest(z.ravel() + 0.02, "norm").pvalue < 0.01
