"""All that is stored outside a process, of data and recipes that never change: python -m tests.support.identities."""

import importlib.util
import json
import shutil
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import gpu_aug
from dali_pipes import Buckets, MultiScale
from dali_pipes.steps.variants import Variants, make_variants
from dali_pipes.video.clips import Clips
from gpu_aug import BoxParams, CenterCrop, HorizontalFlip, Normalize, Operation, Recipe, Schedule
from gpu_aug.views import CameraRecipes, Views
from readers import mix, open_dataset

DATA = Path(__file__).resolve().parents[1] / "data"
FOLDER = DATA / "identities"
SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "folder": ("folder", {}),
    "list": ("list.txt", {}),
    "csv": ("photos.csv", {}),
    "csv with several classes": ("photos.csv", {"label_separator": " "}),
    "video-folder": ("video-folder", {}),
    "clip-list": ("clip-list.csv", {}),
    "frame-folder": ("frame-folder", {"format": "frame-folder"}),
    "tar": ("tar/train-0000.tar", {}),
    "stream": ("tar/train-0000.tar", {"format": "stream"}),
    "parquet": ("parquet/part-0.parquet", {}),
    "parquet with columns": ("parquet/part-0.parquet", {"columns": ["label", "image"]}),
    "arrow": ("arrow/a-file.arrow", {}),
    "lmdb": ("lmdb/photos", {}),
    "hdf5": ("hdf5/photos.h5", {}),
    "hdf5 with columns": ("hdf5/photos.h5", {"columns": ["key"], "key": "key"}),
    "tfrecord": ("tfrecord/part-0.tfrecord", {}),
    "tfrecord with columns": (
        "tfrecord/part-0.tfrecord",
        {"columns": ["image/encoded"], "verify": True},
    ),
    "arrayrecord": ("arrayrecord", {}),
    "mds": ("mds", {}),
    "npy": ("npy/photos.npy", {}),
    "manifest": ("manifest/train.jsonl", {}),
    "coco": ("coco/annotations/instances_train.json", {}),
    "mask-folder": ("mask_folder", {}),
    "mask-folder with values": ("mask_folder", {"mask_values": {3: 0, 4: 1, 5: 255}}),
    "imagenet": ("imagenet", {}),
    "openimages": ("openimages/oidv6-train-annotations-bbox.csv", {}),
    "lerobot": ("lerobot", {}),
    "lerobot with windows": (
        "lerobot",
        {"episodes": [1], "delta_timestamps": {"action": [-0.1, 0.0]}},
    ),
    "lance": ("lance/photos.lance", {}),
    "lance at a version": ("lance/photos.lance", {"version": 1}),
    "delta": ("delta/photos", {}),
    "delta at a version": ("delta/photos", {"version": 0}),
    "iceberg": ("iceberg/photos", {}),
    "energon": ("energon", {}),
    "coco with masks": ("coco/annotations/instances_train.json", {"masks": True, "crowd": True}),
    "voc": ("voc/VOCdevkit", {}),
    "voc with options": (
        "voc/VOCdevkit",
        {"split": "train", "coords": "zero-based", "difficult": False, "outside": "clip"},
    ),
    "yolo": ("yolo", {}),
    "yolo with options": ("yolo/data.yaml", {"task": "detect", "outside": "clip"}),
    "labelme": ("labelme/pictures", {"classes": ["class-0", "class-1", "class-2"]}),
    "dota": ("dota/dota", {}),
    "dota with options": ("dota/dota", {"difficult": False, "outside": "clip"}),
    "coco with oriented boxes": (
        "coco/annotations/instances_train.json",
        {"oriented": True},
    ),
    "labelme with oriented boxes": (
        "labelme/pictures",
        {"classes": ["class-0", "class-1", "class-2"], "oriented": True},
    ),
    "labelme with masks": (
        "labelme/pictures",
        {"classes": ["class-0", "class-1", "class-2"], "masks": True},
    ),
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "AtLeastOneBBoxRandomCrop": {"size": 8},
    "CenterCrop": {"size": 8},
    "CropAndPad": {"px": (-8, 8)},
    "FixedCrop": {"size": 8},
    "GaussianBlur": {"kernel_size": 5},
    "JPEG": {"quality": 50},
    "LongestMaxSize": {"max_size": 8},
    "OneOf": {"operations": [HorizontalFlip(), Normalize()]},
    "Pad": {"padding": 3},
    "PadIfNeeded": {"size": 8},
    "RandomAffine": {"degrees": 10, "fill": (0.1, 0.2, 0.3)},
    "RandomApply": {"operations": [HorizontalFlip()], "p": 0.3},
    "RandomCrop": {"size": 8},
    "RandomOrder": {"operations": [HorizontalFlip(), Normalize()]},
    "RandomResize": {"min_size": 8, "max_size": 9},
    "RandomResizedCrop": {"size": (8, 9), "scale": (0.2, 0.9)},
    "RandomRotation": {"degrees": 10},
    "RandomShortestSize": {"min_size": 8},
    "RandomSizedBBoxSafeCrop": {"size": 8},
    "RandomSizedCrop": {"min_max_height": (4, 8), "size": 8},
    "Resize": {"size": 8},
    "ScaleJitter": {"target_size": 8},
    "SmallestMaxSize": {"max_size": 8},
    "SomeOf": {"operations": [HorizontalFlip(), Normalize()], "n": 1},
    "SomeOfRepeated": {"operations": [HorizontalFlip(), Normalize()], "n": 1},
    "WebP": {"quality": 50},
}


def of_data(folder: Path) -> dict[str, str]:
    """Fingerprints of the formats, and of what is made of them, with indexes beside a copy of the data."""
    opened = {
        name: open_dataset(folder / path, **options) for name, (path, options) in SOURCES.items()
    }
    tar, files = opened["tar"], opened["folder"]
    opened |= {
        "take": tar.take(2),
        "take some": tar.take([2, 0]),
        "where": tar.where("label > 0"),
        "split": tar.split(0.7, 0.3, seed=3)[1],
        "balanced": tar.balanced({0: 2.5}, length=9),
        "mix": mix([tar, files], [0.25, 0.75], length=11),
        "labels": files.with_labels(["b", "a", "b"]),
        "labels that are vectors": files.with_labels([[0.5, 2], [1, 0], [0, 0]]),
        "labels of several lengths": files.with_labels([[0.5], [1, 0], []]),
        "mix with offsets": mix([files, files], labels="offset"),
        "mix by epoch": mix([tar, files], {0: [1, 0], 3: [0.25, 0.75]}),
    }
    return {name: dataset.fingerprint for name, dataset in opened.items()}


def of_clips(folder: Path) -> dict[str, str]:
    """Fingerprints of clips, by their settings."""
    videos = open_dataset(folder / "video-folder")
    settings: list[dict[str, Any]] = [
        {"num_frames": 4, "stride": 2},
        {"num_frames": 4, "fps": 7.5},
        {"num_frames": 4, "fps": 30000 / 1001, "sampling": "all", "padding": "loop"},
        {"num_frames": 2, "stride": 1, "sampling": "uniform", "clips_per_video": 3},
        {"num_frames": 2, "stride": 3, "sampling": "first", "padding": "repeat"},
        {"num_frames": 2, "stride": 1, "on_damaged_video": "truncate"},
    ]
    found = {json.dumps(one): Clips(videos, **one).fingerprint for one in settings}
    seconds = Clips(open_dataset(folder / "clip-list.csv"), num_frames=2, stride=1)
    frames = Clips(
        open_dataset(folder / "frame-folder", format="frame-folder"), num_frames=2, stride=1
    )
    return found | {"of seconds": seconds.fingerprint, "of frames": frames.fingerprint}


def of_recipes() -> dict[str, str]:
    """Fingerprints of every preset, every operation, views, and what is said of targets."""
    recipes: dict[str, Recipe | Views | Schedule | Variants] = {
        name: Recipe.preset(name) for name in gpu_aug.PRESETS
    }
    recipes |= {name: Recipe([CenterCrop(16), one]) for name, one in _operations().items()}
    two = [Recipe([HorizontalFlip()]), Recipe([Normalize()])]
    recipes["views"] = Views(two)
    recipes["cameras"] = CameraRecipes({("left", "right"): two[0], "top": two[1]})
    recipes["schedule"] = Schedule({0: two[0], 3: two[1]})
    squares = [(8, 8), (9, 9)]
    for name, sizes in (("buckets", Buckets(squares)), ("sizes", MultiScale(squares, every=6))):
        recipes[name] = make_variants(lambda size: Recipe([CenterCrop(size)]), sizes)
    recipes["boxes"] = Recipe([HorizontalFlip()], boxes=BoxParams(format="cxcywh", clip=False))
    return {name: recipe.fingerprint for name, recipe in recipes.items()}


def of_defaults() -> dict[str, str]:
    """Digests of all fields of operations: a default that changes would change runs under an unchanged fingerprint."""
    texts = {name: json.dumps(one.to_dict(), sort_keys=True) for name, one in _operations().items()}
    return {name: sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}


def of_steps(prefix: str = "") -> dict[str, str]:
    """Fingerprints of recipes with steps of the user's own, whose modules are called so."""
    steps: dict[str, Any] = {}
    for name in ("functions", "steps"):
        spec = importlib.util.spec_from_file_location(prefix + name, FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[prefix + name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        steps |= module.steps()
    return {name: Recipe([HorizontalFlip(), step]).fingerprint for name, step in steps.items()}


def _operations() -> dict[str, Operation]:
    classes = {
        name: cls
        for name, cls in sorted(Operation._classes.items())
        if cls.__module__.startswith(("gpu_aug.", "renamed.gpu_aug."))
        and not getattr(cls, "given_by_name", None)
        and name != "AlbumentationsTransform"
    }
    return {name: cls(**ARGUMENTS.get(name, {})) for name, cls in classes.items()}


def rename_all() -> None:
    """Give every module of ours that is in use another name, and every class but operations.

    The names of operations are words of recipe files.
    """
    ours = [
        name
        for name in sys.modules
        if name.partition(".")[0] in ("readers", "gpu_aug", "dali_pipes")
    ]
    for name in ours:
        for cls in [one for one in vars(sys.modules[name]).values() if isinstance(one, type)]:
            if cls.__module__ == name:
                cls.__module__ = f"renamed.{name}"
                if not issubclass(cls, Operation):
                    cls.__name__ = cls.__qualname__ = f"Renamed{cls.__name__}"


def identities(folder: Path, *, renamed: bool = False) -> dict[str, dict[str, str]]:
    """Return all of them; the folder is empty, and the steps are in modules of other names if asked for."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    shutil.copytree(DATA / "mds" / "small", folder / "mds")
    return {
        "data": of_data(folder),
        "clips": of_clips(folder),
        "recipes": of_recipes(),
        "defaults": of_defaults(),
        "steps": of_steps("renamed_" if renamed else ""),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        found = identities(Path(one))
        if "--renamed" in sys.argv:
            rename_all()
            found = identities(Path(other), renamed=True)
        sys.stdout.write(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False))
