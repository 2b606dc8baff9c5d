"""WebDataset shards with the metadata of `energon prepare`, as its pages describe them; read back by webdataset.

The tars are written by webdataset; Megatron-Energon itself is no package of the tests.
"""

import json
import struct
import tarfile
from pathlib import Path
from typing import Any

from tests.support.tars import by_webdataset
from tests.support.writers import Expected, Written
from tests.support.writers.tar import damage as damage_tar
from tests.support.writers.tar import write_shard

FORMAT = "energon"
CHECKED_AGAINST = "webdataset"
PARTS = {"train": ["s_{00..01}.tar"], "val": []}
TOLD = {"field_map": {"image": "photo.jpg", "label": "cls"}, "exclude": ["s_00.tar/gone"]}


def write(folder: Path, samples: list[Written]) -> Path:
    """In three shards, of which the last is of no split, with a sample that is excluded."""
    rows = [
        {"__key__": one.name, "photo.jpg": one.image, "cls": b"%d" % one.label} for one in samples
    ]
    gone = {"__key__": "gone", "photo.jpg": b"gone", "cls": b"9"}
    half = len(rows) // 2 + 1
    shards = {
        "s_00.tar": [rows[0], gone, *rows[1:half]],
        "s_01.tar": rows[half:],
        "val.tar": [gone],
    }
    for name, content in shards.items():
        write_shard(folder / name, content)
    prepare(folder, PARTS, **TOLD)
    return folder


def prepare(folder: Path, parts: dict[str, list[str]], **told: Any) -> None:
    """Write what `energon prepare` writes for the tars of a folder: .nv-meta, and an .idx beside each."""
    counts = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            members = archive.getmembers()
        keys = [member.name.partition(".")[0] for member in members]
        starts = [
            member.offset
            for number, member in enumerate(members)
            if not number or keys[number] != keys[number - 1]
        ]
        last = members[-1]
        end = last.offset_data + -(-last.size // 512) * 512
        path.with_name(f"{path.name}.idx").write_bytes(
            struct.pack(f"<{len(starts) + 1}Q", *starts, end)
        )
        counts[path.name] = len(starts)
    meta = folder / ".nv-meta"
    meta.mkdir(exist_ok=True)
    info = {"energon_version": "7.4.1", "shard_counts": counts}
    (meta / ".info.json").write_text(json.dumps(info))
    split = {"split_parts": parts, "exclude": told.pop("exclude", [])}
    (meta / "split.yaml").write_text(json.dumps(split))
    kind = {"__module__": "megatron.energon", "__class__": "ImageClassificationSample"}
    (meta / "dataset.yaml").write_text(json.dumps({"sample_type": kind, **told}))


def expected(source: Path) -> list[Expected]:
    """The samples that webdataset reads, without the excluded one."""
    return [
        Expected(key, fields["photo.jpg"], int(fields["cls"]))
        for key, fields in by_webdataset(source / "s_00.tar", source / "s_01.tar")
        if not key.endswith("/gone")
    ]


def damage(source: Path) -> Path:
    """Damage a tar, and prepare it again: else it would be told to have been replaced."""
    damage_tar([source / "s_01.tar"])
    prepare(source, PARTS, **TOLD)
    return source
