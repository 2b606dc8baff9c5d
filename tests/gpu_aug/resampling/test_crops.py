"""Size operations that follow each other become one rectangle, one resize and one place on the canvas."""

import numpy as np
import pytest

from gpu_aug.resampling.crops import compose_crops

SIZE = np.array([[10, 12]])


def pair(rows: int, columns: int) -> np.ndarray:
    return np.array([[rows, columns]])


@pytest.mark.parametrize("resized", [False, True])
def test_a_crop_that_leaves_the_image_is_padded(resized: bool) -> None:
    """Where it is not resized, pixels keep their size; where it is, the padding grows as they do."""
    step = {"start": pair(-2, 3), "shape": pair(8, 6)}
    if resized:
        step["resize"] = pair(16, 18)

    crops = compose_crops([step], SIZE, antialias=True)

    found = [
        getattr(crops, name)[0].tolist() for name in ("start", "shape", "resize", "paste", "canvas")
    ]
    scaled = [[12, 18], [4, 0], [16, 18]] if resized else [[6, 6], [2, 0], [8, 6]]
    assert found == [[0, 3], [6, 6], *scaled]
