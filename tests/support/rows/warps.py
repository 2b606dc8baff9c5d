"""Rows for warps: matrices and fields of displacements."""

from collections.abc import Callable
from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch
from albumentations.augmentations.geometric import functional as geometric
from torchvision.transforms.v2 import functional as tv

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
from gpu_aug.ops.geometric.warps import WarpWithBorder
from tests.support.rows.row import SIZE, Oracle, Row, interleaved, planar

HEIGHT, WIDTH = SIZE
CPU = torch.device("cpu")
CV2 = {"nearest": cv2.INTER_NEAREST, "bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}
BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "edge": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}
BILINEAR, NEAREST = tv.InterpolationMode.BILINEAR, tv.InterpolationMode.NEAREST
SHIFTED = {"matrix": 0.002}  # 1/500 of a pixel
MOVED = {"apply": 1} | SHIFTED


def by_opencv(operation: WarpWithBorder) -> Oracle:
    """OpenCV's own warps, with its constant as OpenCV takes it: one value per channel."""
    fill = np.broadcast_to(operation.fill, 3).tolist()
    settings = {
        "flags": CV2[operation.interpolation],
        "borderMode": BORDERS[operation.padding_mode],
        "borderValue": fill,
    }

    def warp(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        size = tuple(p["shape"].tolist()[::-1]) if "shape" in p else SIZE[::-1]
        return planar(cv2.warpPerspective(interleaved(x), p["matrix"], size, **settings))

    return warp


def by_albumentations(call: Any) -> Oracle:
    """Albumentations' own class; the matrix goes into its parameters."""

    def apply(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        shape = p.get("shape", np.array(SIZE))
        given = {"matrix": p["matrix"], "output_shape": tuple(shape.tolist()), "shape": SIZE}
        given |= {"x_min": 0, "y_min": 0, "x_max": 0, "y_max": 0}
        given |= {"max_height": int(shape[0]), "max_width": int(shape[1])}
        return planar(call.apply(interleaved(x), **given))

    return apply


def by_maps(operation: WarpWithBorder, maps: Callable[[dict[str, Any]], tuple[Any, Any]]) -> Oracle:
    """Albumentations' remapping along its own maps."""

    def remap(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        return planar(
            geometric.remap(
                interleaved(x),
                *maps(p),
                interpolation=CV2[operation.interpolation],
                border_mode=BORDERS[operation.padding_mode],
                value=np.broadcast_to(operation.fill, 3).tolist(),
            )
        )

    return remap


def affine_of(p: dict[str, Any]) -> tuple[float, list[int], float]:
    """Angle, shift and scale, read back from a matrix without shear."""
    matrix = p["matrix"]
    center = np.array([(WIDTH - 1) / 2, (HEIGHT - 1) / 2, 1])
    angle = float(np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0])))
    shift = np.rint(matrix @ center - center)[:2].astype(int).tolist()
    return angle, shift, float(np.hypot(matrix[0, 0], matrix[1, 0]))


def torchvision_affine(mode: Any, fill: Any = None) -> Oracle:
    return lambda x, p: tv.affine(x, *affine_of(p), [0.0, 0.0], interpolation=mode, fill=fill)


def torchvision_rotation(mode: Any, *, center: list[float] | None, expand: bool) -> Oracle:
    def rotate(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        angle = -float(np.degrees(np.arctan2(p["matrix"][1, 0], p["matrix"][0, 0])))
        return tv.rotate(x, angle, interpolation=mode, expand=expand, center=center)

    return rotate


def torchvision_perspective(mode: Any, fill: Any = None) -> Oracle:
    to_center, to_corner = np.eye(3), np.eye(3)
    to_center[:2, 2], to_corner[:2, 2] = -0.5, 0.5

    def perspective(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        back = np.linalg.inv(to_corner @ p["matrix"] @ to_center)
        coefficients = (back / back[2, 2]).ravel()[:8].tolist()
        return tv.perspective(
            x, None, None, interpolation=mode, fill=fill, coefficients=coefficients
        )

    return perspective


def torchvision_elastic(operation: ElasticTransform) -> Oracle:
    """The sampling of torchvision along our field; its law is tested beside it."""

    def elastic(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
        field = operation.displacement({"key": p["key"][None]}, SIZE, CPU)
        share = field * torch.tensor([2 / WIDTH, 2 / HEIGHT])[:, None, None]
        return tv.elastic(x, share.permute(0, 2, 3, 1), interpolation=BILINEAR, fill=None)

    return elastic


def elastic_maps(operation: ElasticDistortion) -> Callable[[dict[str, Any]], tuple[Any, Any]]:
    def maps(p: dict[str, Any]) -> tuple[Any, Any]:
        field = operation.displacement({"key": p["key"][None]}, SIZE, CPU)[0].numpy()
        return field[0] + np.arange(WIDTH), field[1] + np.arange(HEIGHT)[:, None]

    return maps


def piecewise_maps(p: dict[str, Any]) -> tuple[Any, Any]:
    class Jitter:
        """Gives the drawn jitter to Albumentations, (y, x)."""

        def normal(self, _mean: float, _scale: float, shape: tuple[int, ...]) -> np.ndarray:
            return (p["moved"] - p["points"])[:, ::-1].reshape(shape)

    return geometric.create_piecewise_affine_maps(SIZE, (4, 4), 0.1, True, Jitter())


def spline_maps(p: dict[str, Any]) -> tuple[Any, Any]:
    points = geometric.generate_control_points(4)
    weights, affine = geometric.compute_tps_weights(points, p["moved"])
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    shares = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32) / [WIDTH, HEIGHT]
    moved = geometric.tps_transform(shares, points, weights, affine) * [WIDTH, HEIGHT]
    return moved[:, 0].reshape(SIZE), moved[:, 1].reshape(SIZE)


WIDE = (180, (0.2, 0.3), (0.5, 1.5))
SHEARED = RandomAffine(*WIDE, (-20, 20, -10, 10), p=0.8)
BORDERED = {
    f"affine, {mode}, {padding}": RandomAffine(*WIDE, interpolation=mode, padding_mode=padding)
    for mode in ("bilinear", "bicubic", "nearest")
    for padding in ("constant", "edge", "reflect", "symmetric")
    if mode != "bicubic" or padding in ("constant", "edge")
}
COLOURED = RandomAffine(30, fill=(0.1, 0.5, 0.9))
GRID, STRETCHED = GridDistortion(p=1), GridDistortion(7, 0.9, normalized=False, p=1)
OPTICAL, FISHEYE = OpticalDistortion(0.8, p=1), OpticalDistortion(0.8, "fisheye", p=1)
POINTS, SPLINE = PiecewiseAffine(p=1), ThinPlateSpline(p=1)
ELASTIC, SMOOTH = ElasticTransform(300.0, 4.0), ElasticDistortion(300.0, 8.0, p=1)
FITTED = Affine(rotate=(-90, 90), shear=(-15, 15), fit_output=True, p=1)

ROWS = {
    "affine": Row(SHEARED, MOVED),
    **{
        # Ties of nearest: torchvision and OpenCV compute in float32.
        label: Row(operation, MOVED, by_opencv(operation), 0.05, 0.001)
        for label, operation in BORDERED.items()
    },
    "affine as torchvision": Row(RandomAffine(*WIDE), MOVED, torchvision_affine(BILINEAR), 0.05),
    "affine as torchvision, nearest": Row(
        RandomAffine(*WIDE, interpolation="nearest"),
        MOVED,
        torchvision_affine(NEAREST),
        0.05,
        0.001,
    ),
    "affine as torchvision, with fill": Row(
        RandomAffine(*WIDE, fill=0.3, blend="twice"),
        MOVED,
        torchvision_affine(BILINEAR, [0.3] * 3),
        0.05,
    ),
    "affine with colour": Row(COLOURED, MOVED, by_opencv(COLOURED), 0.05),
    "affine about a centre": Row(
        RandomAffine(60, center=(10, 50.5)),
        MOVED,
        lambda x, p: tv.affine(
            x, affine_of(p)[0], [0, 0], 1.0, [0.0, 0.0], BILINEAR, center=[10, 50.5]
        ),
        0.05,
    ),
    "rotation": Row(
        RandomRotation(60), MOVED, torchvision_rotation(BILINEAR, center=None, expand=False), 0.05
    ),
    "rotation, nearest": Row(
        RandomRotation(60, interpolation="nearest"),
        MOVED,
        torchvision_rotation(NEAREST, center=None, expand=False),
        0.05,
        0.001,
    ),
    "rotation, expanded": Row(
        RandomRotation(60, expand=True),
        SHIFTED,
        torchvision_rotation(BILINEAR, center=None, expand=True),
        0.05,
    ),
    "rotation, expanded about a centre": Row(
        RandomRotation(60, expand=True, center=(10, 50)),
        SHIFTED,
        torchvision_rotation(BILINEAR, center=[10, 50], expand=True),
        0.05,
    ),
    "quarter turn": Row(
        RandomRotation((90, 90), expand=True),
        SHIFTED,
        lambda x, _: torch.rot90(x, 1, (1, 2)),
        0.05,
    ),
    "perspective": Row(RandomPerspective(p=1), MOVED, torchvision_perspective(BILINEAR), 0.05),
    "perspective, nearest": Row(
        RandomPerspective(p=1, interpolation="nearest"),
        MOVED,
        torchvision_perspective(NEAREST),
        0.05,
        0.001,
    ),
    "perspective with fill": Row(
        RandomPerspective(0.8, fill=0.3, blend="twice"),
        MOVED,
        torchvision_perspective(BILINEAR, [0.3] * 3),
        0.05,
    ),
    "perspective, mirrored": Row(
        RandomPerspective(p=1, padding_mode="reflect"),
        MOVED,
        by_opencv(RandomPerspective(padding_mode="reflect")),
        0.05,
    ),
    "affine of albumentations": Row(
        Affine(scale=(0.5, 1.5), translate_percent=(-0.2, 0.2), rotate=(-90, 90), shear=(-9, 9)),
        MOVED,
        by_albumentations(A.Affine()),
        0.05,
    ),
    "affine of albumentations, fitted": Row(FITTED, SHIFTED, by_albumentations(A.Affine()), 0.05),
    "rotation of albumentations": Row(
        Rotate(p=1, padding_mode="symmetric"),
        MOVED,
        by_albumentations(A.Rotate(border_mode=cv2.BORDER_REFLECT)),
        0.05,
    ),
    "rotation of albumentations, cropped": Row(
        Rotate(crop_border=True, p=1), SHIFTED, by_opencv(Rotate()), 0.05
    ),
    "safe rotation": Row(
        SafeRotate(p=1, fill=0.4), MOVED, by_albumentations(A.SafeRotate(fill=0.4)), 0.05
    ),
    "perspective of albumentations": Row(
        Perspective((0.05, 0.2), p=1), MOVED, by_opencv(Perspective()), 0.05
    ),
    "perspective of albumentations, free": Row(
        Perspective((0.05, 0.2), keep_size=False, fit_output=True, p=1),
        SHIFTED,
        by_albumentations(A.Perspective(keep_size=False)),
        0.05,
    ),
    "elastic": Row(ELASTIC, {"apply": 1, "key": 1}, torchvision_elastic(ELASTIC), 0.05),
    "elastic, nearest": Row(
        ElasticTransform(300.0, 4.0, interpolation="nearest", padding_mode="edge"), {"key": 1}
    ),
    "elastic of albumentations": Row(
        SMOOTH, {"apply": 1, "key": 1}, by_maps(SMOOTH, elastic_maps(SMOOTH)), 0.05
    ),
    "elastic of albumentations, alike": Row(
        ElasticDistortion(
            90.0, 4.0, approximate=True, same_dxdy=True, noise_distribution="uniform", p=1
        ),
        {"key": 1},
    ),
    "grid distortion": Row(
        GRID,
        {"apply": 1, "steps": 0.001},
        by_maps(GRID, lambda p: geometric.generate_grid(SIZE, *p["steps"], 5)),
        0.05,
    ),
    "grid distortion, free": Row(
        STRETCHED,
        {"steps": 0.001},
        by_maps(STRETCHED, lambda p: geometric.generate_grid(SIZE, *p["steps"], 7)),
        0.05,
    ),
    "optical distortion": Row(
        OPTICAL,
        {"apply": 1, "coefficient": 0.001},
        by_maps(
            OPTICAL, lambda p: geometric.get_camera_matrix_distortion_maps(SIZE, p["coefficient"])
        ),
        0.05,
    ),
    "optical distortion, fisheye": Row(
        FISHEYE,
        {"coefficient": 0.001},
        by_maps(FISHEYE, lambda p: geometric.get_fisheye_distortion_maps(SIZE, p["coefficient"])),
        0.05,
    ),
    "piecewise affine": Row(
        POINTS, {"apply": 1, "moved": 0.01}, by_maps(POINTS, piecewise_maps), 0.05
    ),
    # Albumentations solves for the weights in float32.
    "thin plate spline": Row(
        SPLINE, {"apply": 1, "moved": 0.001}, by_maps(SPLINE, spline_maps), 0.5
    ),
}
