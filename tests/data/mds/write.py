"""Write an MDS folder with mosaicml-streaming, and what that package reads from it.

    python tests/data/mds/write.py FOLDER [COMPRESSION ...]

runs where mosaicml-streaming is installed (gpu-aug bench compare --peers mosaic-streaming). What lies beside it was written so.
"""

import base64
import io
import json
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
from PIL import Image
from streaming import MDSWriter
from streaming.base.format import reader_from_json

COLUMNS = {
    "bytes": "bytes",
    "str": "str",
    "int": "int",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "float16": "float16",
    "float32": "float32",
    "float64": "float64",
    "str_int": "str_int",
    "str_float": "str_float",
    "str_decimal": "str_decimal",
    "json": "json",
    "image": "jpeg",
    "mask.png": "png",
    "grey": "pil",
    "raw": "pil",
    "jpegs": "list[jpeg]",
    "pngs": "list[png]",
    "pils": "list[pil]",
    "array_of_jpegs": "jpeg_array",
    "free": "ndarray",
    "typed": "ndarray:float32",
    "shaped": "ndarray:int16:2,3",
    "class": "int",
}


def picture(seed: int, mode: str = "RGB") -> Image.Image:
    rows, columns = np.mgrid[: 5 + seed, :7]
    return Image.fromarray(
        np.stack([rows * 9, columns * 9, rows + seed], -1).astype(np.uint8)
    ).convert(mode)


def encoded(image: Image.Image, kind: str) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def sample(seed: int) -> dict[str, object]:
    some = [picture(seed + number) for number in range(seed % 3 + 1)]
    return {
        "bytes": bytes(range(seed)),
        "str": "zwölf " * seed,
        "int": -(10**15) - seed,
        "uint8": 250 + seed,
        "uint16": 65_530 + seed,
        "uint32": 2**32 - 1 - seed,
        "uint64": 2**64 - 1 - seed,
        "int8": -128 + seed,
        "int16": -32_768 + seed,
        "int32": -(2**31) + seed,
        "int64": -(2**63) + seed,
        "float16": 0.1 + seed,
        "float32": 0.1 + seed,
        "float64": 0.1 + seed,
        "str_int": 10**30 + seed,
        "str_float": 1e300,
        "str_decimal": Decimal("0.10") + seed,
        "json": {"boxes": [[seed, 0, 5, 6.5]], "name": "ä"},
        "image": encoded(picture(seed), "JPEG"),
        "mask.png": picture(seed, "L"),
        "grey": picture(seed, "L"),
        "raw": picture(seed),
        "jpegs": [Image.open(io.BytesIO(encoded(image, "JPEG"))) for image in some],
        "pngs": some,
        "pils": some,
        "array_of_jpegs": [encoded(image, "JPEG") for image in some],
        "free": np.arange(seed + 1, dtype=np.uint16).reshape(1, -1) * 300,
        "typed": np.full((2, seed + 1), 0.5, np.float32),
        "shaped": np.arange(6, dtype=np.int16).reshape(2, 3) - seed,
        "class": seed * 3,
    }


def told(value: object) -> object:
    """What the package returned, in JSON."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Image.Image):
        file = getattr(value, "fp", None)
        stored = base64.b64encode(file.getvalue()).decode() if file else ""
        pixels = base64.b64encode(np.asarray(value).tobytes()).decode()
        return {"stored": stored, "pixels": pixels, "mode": value.mode, "size": value.size}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "values": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    return [told(item) for item in value] if isinstance(value, list) else value


def write_plain(folder: Path, compression: str | None = None) -> None:
    options = {"compression": compression, "hashes": ["sha1", "xxh64"], "size_limit": 8_000}
    with MDSWriter(out=str(folder), columns=COLUMNS, **options) as writer:
        for seed in range(3):
            writer.write(sample(seed))


def write(folder: Path) -> None:
    write_plain(folder / "plain")
    rows = []
    for shard in json.loads((folder / "plain" / "index.json").read_text())["shards"]:
        reader = reader_from_json(str(folder / "plain"), None, shard)
        for number in range(len(reader)):
            rows.append({name: told(value) for name, value in reader[number].items()})
    (folder / "expected.json").write_text(json.dumps(rows))


def write_small(folder: Path) -> None:
    """Few columns and many shards, to compare a writer with."""
    with MDSWriter(
        out=str(folder), columns={"image": "jpeg", "key": "str", "label": "int"}, size_limit=600
    ) as writer:
        for number in range(7):
            writer.write(
                {"image": bytes([number]) * (40 * number), "key": f"k{number}", "label": number - 1}
            )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    for name in sys.argv[2:]:
        write_plain(Path(sys.argv[1], name), name)
    write_small(Path(sys.argv[1], "small"))
