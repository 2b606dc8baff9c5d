"""Write copies of some samples in every format, each with the format's own library."""

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

_PER_ROW_GROUP = 100  # the value of the Hugging Face hub for images
_PER_SHARD = 4096


class Image(NamedTuple):
    """An encoded image with its class, to be written as a sample."""

    data: bytes
    label: int


def files(images: Sequence[Image], folder: Path) -> None:
    """Write the images as files in class folders."""
    for number, image in enumerate(images):
        path = folder / f"{image.label:04d}" / f"{number:08d}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(image.data)


def tar(images: Sequence[Image], folder: Path) -> None:
    """Write WebDataset shards."""
    import webdataset as wds

    for shard, part in _parts(images):
        with wds.TarWriter(str(folder / f"train-{shard:06d}.tar")) as writer:
            for number, image in enumerate(part):
                writer.write(
                    {"__key__": f"{number:08d}", "jpg": image.data, "cls": str(image.label)}
                )


def parquet(images: Sequence[Image], folder: Path) -> None:
    """Write Parquet files without compression, because photographs are compressed already."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for shard, part in _parts(images):
        table = pa.table(
            {"image": [image.data for image in part], "label": [image.label for image in part]}
        )
        path = folder / f"train-{shard:06d}.parquet"
        pq.write_table(
            table, path, row_group_size=_PER_ROW_GROUP, compression="none", use_dictionary=False
        )


def arrow(images: Sequence[Image], folder: Path) -> None:
    """Write a Hugging Face dataset, saved to disk."""
    import datasets

    columns = {
        "image": [{"bytes": image.data, "path": None} for image in images],
        "label": [image.label for image in images],
    }
    features = datasets.Features(
        {"image": datasets.Image(decode=False), "label": datasets.Value("int64")}
    )
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(str(folder))


def lmdb(images: Sequence[Image], folder: Path) -> None:
    """Write one LMDB, with a key per image."""
    import lmdb as library

    size_bytes = 2 * sum(len(image.data) + 8192 for image in images)
    with library.open(str(folder), map_size=size_bytes) as found, found.begin(write=True) as write:
        for number, image in enumerate(images):
            write.put(b"%08d.jpg" % number, image.data)


def hdf5(images: Sequence[Image], folder: Path) -> None:
    """Write one HDF5 file, with images of variable length."""
    import h5py
    import numpy as np

    with h5py.File(folder / "train.h5", "w") as file:
        column = file.create_dataset("image", len(images), h5py.vlen_dtype(np.uint8))
        for number, image in enumerate(images):
            column[number] = np.frombuffer(image.data, np.uint8)
        file["label"] = np.array([image.label for image in images])


def tfrecord(images: Sequence[Image], folder: Path) -> None:
    """Write TFRecord files of tf.train.Example."""
    import tfrecord as library

    for shard, part in _parts(images):
        path = folder / f"train-{shard:06d}.tfrecord"
        with closing(library.TFRecordWriter(str(path))) as writer:
            for image in part:
                writer.write({"image": (image.data, "byte"), "label": (image.label, "int")})


def array_record(images: Sequence[Image], folder: Path) -> None:
    """Write ArrayRecord files for random access: one record per group, not compressed."""
    from array_record.python.array_record_module import ArrayRecordWriter

    for shard, part in _parts(images):
        path = folder / f"train-{shard:06d}.array_record"
        with closing(ArrayRecordWriter(str(path), "group_size:1,uncompressed")) as writer:
            for image in part:
                writer.write(image.data)


def mds(images: Sequence[Image], folder: Path) -> None:
    """Write MosaicML MDS shards."""
    from streaming import MDSWriter

    columns = {"image": "bytes", "label": "int"}
    with MDSWriter(out=str(folder), columns=columns, exist_ok=True) as writer:
        for image in images:
            writer.write({"image": image.data, "label": image.label})


def litdata(images: Sequence[Image], folder: Path) -> None:
    """Write LitData chunks."""
    import litdata as ld

    ld.optimize(
        _same,
        [{"image": image.data, "label": image.label} for image in images],
        str(folder),
        chunk_bytes="64MB",
        num_workers=1,
        verbose=False,
    )


def _same(sample: dict[str, object]) -> dict[str, object]:
    return sample


def _parts(images: Sequence[Image]) -> list[tuple[int, Sequence[Image]]]:
    starts = range(0, len(images), _PER_SHARD)
    return [(number, images[start : start + _PER_SHARD]) for number, start in enumerate(starts)]


COPIES: dict[str, Callable[[Sequence[Image], Path], None]] = {
    copy.__name__: copy
    for copy in (files, tar, parquet, arrow, lmdb, hdf5, tfrecord, array_record, mds, litdata)
}


def main(name: str, source: str, folder: str) -> None:
    """Copy the output of `files` to another format, for ``python -m bench.reading.copies NAME FILES FOLDER``."""
    paths = sorted(Path(source).rglob("*.jpg"), key=lambda path: path.name)
    images = [Image(path.read_bytes(), int(path.parent.name)) for path in paths]
    COPIES[name](images, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
