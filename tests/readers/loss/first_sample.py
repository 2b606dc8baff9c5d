"""The first samples are like any others: what is bad in them is skipped, and decides nothing for the others."""

from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

from dali_pipes import Clips, Loader
from gpu_aug import CenterCrop, Recipe
from readers import Dataset, Sample, open_dataset
from readers.prepare.inspection.kind import holds_videos
from tests.support.kinds import by_pillow
from tests.support.loss import Cell
from tests.support.one_other import all_writers
from tests.support.writers import Written

NUM_SAMPLES, NUM_BAD, BATCH_SIZE = 20, 12, 6


class Parser:
    """Reads a field as its length, and refuses the contents of some samples; it runs in the loader's threads."""

    def __init__(self, refused: set[bytes]) -> None:
        self.refused = refused

    def __call__(self, data: bytes) -> int:
        """Return the length of a field that is not refused."""
        if data in self.refused:
            raise ValueError("not a field of ours")
        return len(data)


def written() -> list[Written]:
    samples = []
    for number in range(NUM_SAMPLES):
        picture = Image.new("RGB", (32, 32), (8 * number, 0, 255 - 8 * number))
        samples.append(Written(f"photo-{number:03d}", by_pillow("JPEG", picture), number % 3))
    return samples


def content(sample: Sample) -> tuple[str, bytes]:
    """Return the field that holds a sample's image or video, and its bytes."""
    payload = sample.video if sample.image is None else sample.image
    name = next(name for name, one in sample.fields.items() if one is payload)
    return name, bytes(sample.fields[name])


def loader_of(dataset: Any, **arguments: Any) -> Loader:
    """Make a loader in the order of the data that may lose all samples."""
    return Loader(
        dataset,
        Recipe([CenterCrop(16)]),
        batch_size=BATCH_SIZE,
        device="cpu",
        shuffle="none",
        last_batch="partial",
        max_bad_samples=NUM_SAMPLES,
        **{"on_bad_sample": "skip", **arguments},
    )


def first_fields_are_bad(folder: Path, writer: ModuleType) -> None:
    source: Any = writer.write(folder, written())
    dataset: Dataset = open_dataset(source, **getattr(writer, "OPTIONS", {}))
    samples = [one for one in dataset.fetch(range(NUM_SAMPLES)) if isinstance(one, Sample)]
    name = content(samples[0])[0]
    refused = {content(one)[1] for one in samples[:NUM_BAD]}
    sound = [row for row, one in enumerate(samples) if content(one)[1] not in refused]
    data = Clips(dataset, num_frames=1, stride=1) if holds_videos(dataset) else dataset

    with loader_of(data, fields={name: Parser(refused)}) as loader:
        batches = list(loader)

    assert [index for one in batches for index in one.indices.tolist()] == sound
    assert len(loader.bad_samples) == NUM_SAMPLES - len(sound)
    assert {one.stage for one in loader.bad_samples} == {"fields"}
    shapes = {(*one.images.shape[1:], len(one[name]) == len(one)) for one in batches}
    assert len(shapes) == 1
    assert (len(batches[0]), batches[0].labels.shape[1:]) == (0, batches[-1].labels.shape[1:])

    with loader_of(data, fields={name: Parser(refused)}, on_bad_sample="replace") as loader:
        indices = [index for one in loader for index in one.indices.tolist()]
    assert len(indices) == NUM_SAMPLES
    assert {*indices} <= {*sound}


def first_members_are_bad(folder: Path) -> None:
    """A stream looks at no sample before its first step, and counts those of it as bad."""
    from tests.support.writers import tar

    source = tar.write(folder, written())
    stream = open_dataset(source, format="stream")
    refused = {one.image for one in written()[:NUM_BAD]}
    with loader_of(stream, fields={"jpg": Parser(refused)}) as loader:
        labels = np.concatenate([batch.labels.numpy() for batch in loader])

    assert labels.tolist() == [one.label for one in written()[NUM_BAD:]]
    assert len(loader.bad_samples) == NUM_BAD


def first_frames_are_bad(folder: Path) -> None:
    """A folder of frames has no field of a user's, so its frames are what is bad."""
    from tests.support.writers import frame_folder

    source = frame_folder.write(folder, written())
    dataset = open_dataset(source)
    keys = [entry.key for entry in dataset.fetch(range(NUM_SAMPLES))]
    for frame in [path for path in folder.rglob("*") if path.is_file()]:
        if any(key in str(frame) for key in keys[:NUM_BAD]):
            frame.write_bytes(b"no frame")
    clips = Clips(open_dataset(source), num_frames=1, stride=1)

    with loader_of(clips) as loader:
        seen = [video for batch in loader for video in batch.videos or ()]

    assert seen == keys[NUM_BAD:]
    assert len(loader.bad_samples) == NUM_BAD


CELLS: dict[str, Cell] = {
    **{
        name: partial(first_fields_are_bad, writer=writer) for name, writer in all_writers().items()
    },
    "frame-folder": first_frames_are_bad,
    "stream": first_members_are_bad,
}
