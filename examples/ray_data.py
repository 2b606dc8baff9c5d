"""Augment photographs with Ray Data, whatever its blocks, and see that the pixels are those of a Loader.

python examples/ray_data.py [DATA]                                # on a cluster of this machine alone
RAY_ADDRESS=HOST:PORT python examples/ray_data.py /shared/DATA    # on a running one
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from arguments import parse_arguments
from PIL import Image, ImageOps

from dali_pipes import Loader
from dali_pipes.integrations.ray.cluster import connect
from dali_pipes.integrations.ray.data_source import DatasetSource
from gpu_aug import Recipe, apply
from readers import open_dataset

RECIPE = Recipe.imagenet_train(size=64)
SEED, EPOCH = 3, 1


def decode(data: bytes) -> np.ndarray[Any, Any]:
    """Decode as the Loader does: uint8 [height, width, 3], upright."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def augment(batch: dict[str, Any]) -> dict[str, Any]:
    """Augment a batch of Ray Data; the column index says which draws each sample gets."""
    samples = [{"image": decode(data)} for data in batch["image"]]
    done = apply(RECIPE, samples, seed=SEED, epoch=EPOCH, indices=batch["index"])
    return {"index": batch["index"], "image": np.stack([one["image"].numpy() for one in done])}


def main(argv: Sequence[str] | None = None) -> int:
    """Compare; return how many pictures are equal."""
    given = parse_arguments(argv, steps=0)
    connect()
    import ray.data

    photos = open_dataset(given.data)
    loader = Loader(photos, RECIPE, batch_size=16, seed=SEED, device="cpu", last_batch="partial")
    loader.set_epoch(EPOCH)
    ours = {
        index: image.numpy().copy()
        for batch in loader
        for index, image in zip(batch.indices.tolist(), batch.images, strict=True)
    }
    equal = 0
    for num_blocks, batch_size in ((2, 7), (5, 16)):
        rows = ray.data.read_datasource(DatasetSource(photos), override_num_blocks=num_blocks)
        rows = rows.map_batches(augment, batch_size=batch_size)
        same = [np.array_equal(row["image"], ours[row["index"]]) for row in rows.iter_rows()]
        print(f"{num_blocks} blocks, batches of {batch_size}: {sum(same)} of {len(ours)} are equal")
        equal += sum(same)
    return equal


if __name__ == "__main__":
    main()
