"""Shards of tiny pictures, and a run on them that is killed."""

import io
import json
import os
import signal
import sys
import tarfile
from pathlib import Path

from dali_pipes import BlockShuffle
from tests.support.jpegs import encode, picture


def write_shards(
    folder: Path, sizes: list[int], ending: str = "tar", cut: int | None = None
) -> list[str]:
    """Write tars of so many samples, whose labels count over all of them; returns their paths.

    The picture `cut` ends in the middle.
    """
    paths, label = [], 0
    mode = "w:gz" if ending.endswith("gz") else "w"
    for shard, size in enumerate(sizes):
        path = folder / f"shard-{shard:02d}.{ending}"
        with tarfile.open(path, mode) as archive:
            for number in range(size):
                side = 16 if label != cut else 96
                data = encode(picture(side, side, label), "4:2:0")
                data = data if label != cut else data[: len(data) // 2]
                for field, content in (("jpg", data), ("cls", str(label).encode())):
                    member = tarfile.TarInfo(f"{number:03d}.{field}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
                label += 1
        paths.append(str(path))
    return paths


def main(folder: str, kill_after: int) -> None:
    """Go on where the saved state stands, writing labels and states; kill this process after some steps."""
    from dali_pipes import Loader
    from gpu_aug import RandomResizedCrop, Recipe
    from readers import open_dataset

    saved, log = Path(folder, "state.json"), Path(folder, "log.jsonl")
    stream = open_dataset(sorted(map(str, Path(folder).glob("*.tar.gz"))), format="stream")
    loader = Loader(
        stream,
        Recipe([RandomResizedCrop(8)]),
        batch_size=4,
        device="cpu",
        shuffle=BlockShuffle(window=9),
        seed=5,
        last_batch="partial",
    )
    if saved.exists():
        loader.load_state_dict(json.loads(saved.read_text()))
    for epoch in range(loader.epoch, 2):
        for step, batch in enumerate(loader):
            with log.open("a") as file:
                line = [epoch, batch.labels.tolist(), float(batch.images.sum())]
                file.write(json.dumps(line) + "\n")
            saved.write_text(json.dumps(loader.state_dict()))
            if (step + 1) == kill_after:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
