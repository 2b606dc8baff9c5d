"""meta/info.json of a LeRobot dataset: its features, its frames per second, and where its files lie."""

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from readers.formats.lerobot.depth import DepthCodes
from readers.formats.text import parse_object, to_struct
from readers.sample import PathLike, SourceError
from readers.storage.paths import UrlFolder, is_url, with_path
from readers.storage.unreadable import OptionalFile, reason_of
from readers.storage.whole_files import read_head, read_whole

INFO = "meta/info.json"
_CONVERTER = "python -m lerobot.datasets.v30.convert_dataset_v21_to_v30 --repo-id=..."
_PLACE = re.compile(r"\{(\w+)(?::0(\d)d)?\}")  # a number in a template: {chunk_index:03d}
# Types of numbers that NumPy and the tables share.
_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_TYPES = (*_NUMBERS, "string", "language", "video", "image")  # of the features that are read
TIME, FRAME, EPISODE = "timestamp", "frame_index", "episode_index"
"""Features that every dataset has."""
_FIXED_NAMES = (TIME, FRAME, EPISODE, "task_index", "subtask_index")  # looked up by these names

Root = Path | UrlFolder
"""The folder of a dataset."""

_MOST_BYTES = 64 << 20  # of info.json that detection reads; such a file has a few kB


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the frames.

    Attributes:
        name: Name of the feature, such as ``observation.state``.
        kind: "number", "text", "image" (pictures in the tables) or "video".
        dtype: NumPy's name for the type of the numbers; "" for other kinds.
        shape: Shape of a frame's value, () for a single number; (height, width) of pictures.
        depth: How distances are stored, if the pixels of the pictures are distances.
        stored_name: Name in the files if `renamed` gave the feature another name, else "".
    """

    name: str
    kind: Literal["number", "text", "image", "video"]
    dtype: str
    shape: tuple[int, ...]
    depth: DepthCodes | None = None
    stored_name: str = ""

    @property
    def column(self) -> str:
        """Name of the feature in the files: of its column in tables, and of the folder of its videos."""
        return self.stored_name or self.name

    @property
    def is_camera(self) -> bool:
        """Whether its values are pictures."""
        return self.kind in ("image", "video")


@dataclass(frozen=True, slots=True)
class Info:
    """The content of meta/info.json.

    Attributes:
        version: Such as ``v3.0``.
        fps: Frames per second, above 0.
        features: Features by name, in stored order.
        data_path: Template of the names of tables.
        video_path: Template of the names of videos; "" without videos.
        splits: Numbers of the episodes of each split, by its name.
        unread: For each feature that is left out because its type is not known, its name and type as stored.
        total_episodes: Number of episodes, as stated; None if it is not.
    """

    version: str
    fps: float
    features: Mapping[str, Feature]
    data_path: str
    video_path: str
    splits: Mapping[str, range]
    unread: Mapping[str, str]
    total_episodes: object = None

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the features that are pictures."""
        return tuple(name for name, one in self.features.items() if one.is_camera)

    def data_file(self, chunk: int, file: int) -> str:
        """Return the name of a table of frames, relative to the dataset's folder."""
        return _filled(self.data_path, {"chunk_index": chunk, "file_index": file})

    def video_file(self, camera: str, chunk: int, file: int) -> str:
        """Return the name of a video, relative to the dataset's folder."""
        values: dict[str, int | str] = {
            "chunk_index": chunk,
            "file_index": file,
            "video_key": camera,
        }
        return _filled(self.video_path, values)


def renamed(info: Info, names: Mapping[str, str]) -> Info:
    """Return the description of a dataset whose features have other names.

    Args:
        info: The description as stored.
        names: New names by stored name; other features keep their names.

    Raises:
        SourceError: A stored name is unknown or that of a number that this reader needs, or two features would share a name.
    """
    if not isinstance(names, Mapping):
        raise SourceError(
            f"rename must give new names by stored name, got {type(names).__name__}: write "
            '{"observation.images.hand": "observation.images.wrist"}'
        )
    fixed = [name for name in names if name not in info.features or name in _FIXED_NAMES]
    features = [
        replace(one, name=names.get(name, name), stored_name=name)
        for name, one in info.features.items()
    ]
    by_name = {one.name: one for one in features}
    if fixed or len(by_name) < len(features):
        free = [name for name in info.features if name not in _FIXED_NAMES]
        raise SourceError(
            f"rename={dict(names)!r} must give features names that no other feature has: rename some of "
            f"{', '.join(free)}"
        )
    return replace(info, features=by_name)


def root_of(given: PathLike | UrlFolder) -> Root:
    """Return the folder, an absolute path or a URL, of a dataset that is given by the folder or by its meta/info.json."""
    if isinstance(given, UrlFolder):
        return given
    if isinstance(given, str) and is_url(given):
        return UrlFolder(with_path(given, lambda path: path.removesuffix(INFO).rstrip("/")))
    path = Path(given).absolute()
    return path.parent.parent if path.name == "info.json" else path


def fits(folder: Root) -> bool:
    """Return whether meta/info.json of a folder states the version of a LeRobot dataset, such as ``v3.0``."""
    path = folder / INFO
    # Other programs also have files of this name.
    with OptionalFile(path), suppress(ValueError):
        stored = parse_object(read_head(path, _MOST_BYTES))
        return isinstance(stored.get("codebase_version"), str)
    return False


def read_info(root: Root) -> Info:
    """Return the content of meta/info.json.

    Raises:
        SourceError: The file is missing, no JSON, of another version than 3, or lacks a value.
    """
    path = root / INFO
    try:
        stored = parse_object(read_whole(path))
        _require_version(root, stored.get("codebase_version"))
        return _info(to_struct(stored, _Info))
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read ({reason_of(error)}): give the folder of a LeRobot dataset"
        ) from None
    except ValueError as error:
        raise SourceError(f"{path} cannot be used ({error}): write it with lerobot") from None


def _require_version(root: Root, version: object) -> None:
    if not isinstance(version, str):
        raise SourceError(
            f"{root / INFO} names no codebase_version: give a LeRobot dataset of version v3.0"
        )
    if re.fullmatch(r"v[01]\..*|v2\..*", version):
        raise SourceError(
            f"{root} is a LeRobot dataset of version {version}, and those of v3.0 are read: convert it with "
            f"lerobot ({_CONVERTER})"
        )
    if not version.startswith("v3."):
        raise SourceError(
            f"{root} is a LeRobot dataset of version {version}, and those of v3.0 are read: write it with a "
            "lerobot that writes v3.0"
        )


class _Info(msgspec.Struct):
    """The content of meta/info.json, as written."""

    codebase_version: str
    fps: Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
    features: dict[str, Any]
    data_path: str
    video_path: str | None = None
    splits: dict[str, Any] | None = None
    total_episodes: Any = None


class _Feature(msgspec.Struct):
    """A feature, as written."""

    dtype: str
    # Some writers have JSON numbers with a point, such as 480.0.
    shape: list[Annotated[float, msgspec.Meta(ge=0, lt=1 << 53, multiple_of=1)]]
    names: Any = None
    info: dict[str, Any] | None = None
    video_info: dict[str, Any] | None = None  # where older datasets say that a camera is of depth


def _info(stored: _Info) -> Info:
    declared = {
        name: to_struct(one, _Feature, f"the feature {name!r}")
        for name, one in stored.features.items()
    }
    features = {name: _feature(name, one) for name, one in declared.items() if one.dtype in _TYPES}
    unread = {name: one.dtype for name, one in declared.items() if one.dtype not in _TYPES}
    for name in (TIME, FRAME, EPISODE):
        if name not in features or features[name].kind != "number" or features[name].shape:
            raise ValueError(f"features must have {name!r}, a number")
    has_videos = any(one.kind == "video" for one in features.values())
    video_path = stored.video_path if has_videos else ""
    if video_path is None:
        raise ValueError("video_path is missing")
    splits = {name: _split(name, one) for name, one in (stored.splits or {}).items()}
    version, data_path = stored.codebase_version, stored.data_path
    total = stored.total_episodes
    info = Info(version, stored.fps, features, data_path, video_path, splits, unread, total)
    info.data_file(0, 0)
    info.video_file("camera", 0, 0)
    return info


def _feature(name: str, stored: _Feature) -> Feature:
    dtype, shape = stored.dtype, tuple(map(int, stored.shape))
    if dtype in ("video", "image"):
        if len(shape) != 3:
            raise ValueError(f"the shape of {name!r} must be height, width, channels, got {shape}")
        names = stored.names
        first = names[0] if isinstance(names, list) and names else "height"
        size = shape[1:] if first in ("channel", "channels") else shape[:2]
        kind: Literal["video", "image"] = "video" if dtype == "video" else "image"
        return Feature(name, kind, "", size, _depth(name, stored))
    if dtype in ("string", "language"):  # language: lists of annotations, which are given as JSON
        return Feature(name, "text", "", ())
    return Feature(name, "number", dtype, () if shape == (1,) else shape)


def _depth(name: str, stored: _Feature) -> DepthCodes | None:
    """Return how a camera stores distances; None for a camera of pictures."""
    about = {**(stored.video_info or {}), **(stored.info or {})}
    if not (about.get("video.is_depth_map") or about.get("is_depth_map")):
        return None
    given = {key: one for key, one in about.items() if one is not None}
    return to_struct(given, DepthCodes, f"the feature {name!r}")


def _split(name: str, text: object) -> range:
    """Return the episodes of a split that is written as "0:50"."""
    match = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f'the split {name!r} must be episodes such as "0:50", got {text!r}')
    return range(int(match[1]), int(match[2]))


def _filled(template: str, values: Mapping[str, int | str]) -> str:
    """Return a template with values in the places of their names; `str.format` would also read attributes."""

    def value(place: re.Match[str]) -> str:
        name, width = place[1], place[2]
        if name not in values:
            raise ValueError(f"the path {template!r} asks for {name}, which is not known")
        return str(values[name]) if width is None else f"{int(values[name]):0{int(width)}d}"

    return _PLACE.sub(value, template)
