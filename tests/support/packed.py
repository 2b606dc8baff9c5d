"""What the tests of packing look at."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from webdataset.tariterators import group_by_keys, tar_file_expander

from readers import Sample, open_dataset
from tests.support.commands import Run

Jpeg = Callable[..., bytes]


ROOT = Path(__file__).resolve().parents[2]


def shards_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tar"))


def by_webdataset(folder: Path) -> list[dict[str, bytes]]:
    with ExitStack() as stack:  # webdataset itself leaves its files open
        shards = [
            {"url": shard.name, "stream": stack.enter_context(shard.open("rb"))}
            for shard in shards_in(folder)
        ]
        samples = list(group_by_keys(tar_file_expander(shards)))
    return [
        {name: data for name, data in sample.items() if name == "__key__" or "__" not in name}
        for sample in samples
    ]


def samples_of(folder: Path) -> list[Sample]:
    dataset = open_dataset(folder)
    samples = dataset.fetch(range(len(dataset)))
    assert all(isinstance(sample, Sample) for sample in samples)
    return [sample for sample in samples if isinstance(sample, Sample)]


def content(folder: Path) -> dict[str, bytes]:
    """Shards and manifest; an index holds the time at which its shard was written."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".tar", ".json")
    }


def manifest_of(folder: Path) -> dict[str, list[dict[str, str]]]:
    path = folder / "manifest.json"
    return json.loads(path.read_bytes()) if path.exists() else {"shards": []}


def refused(run: Run, *arguments: object) -> str:
    code, _, printed = run("pack", *arguments)
    assert code == 2
    assert printed.startswith("error: ")
    return printed.replace("\n", " ")
