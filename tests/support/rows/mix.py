"""Rows for operations that mix images; their outside references are in tests/gpu_aug/ops/test_mix.py."""

from gpu_aug import CutMix, MixUp, Mosaic
from tests.support.rows.row import Row

ROWS = {
    "mixup": Row(MixUp(), {"lam": 0.001, "apply": 1}),
    "mixup of half the images": Row(MixUp(0.2, p=0.5), {"lam": 0.001, "apply": 1}),
    "cutmix": Row(CutMix(), {"start": 1, "shape": -1, "apply": 1}),
    "cutmix of half the images": Row(CutMix(0.5, p=0.5), {"start": 1, "apply": 1}),
    "mosaic": Row(Mosaic(), {"start": 1, "apply": 1}),
    "mosaic of half the images": Row(Mosaic((0.0, 1.0), p=0.5), {"start": 1, "apply": 1}),
}
