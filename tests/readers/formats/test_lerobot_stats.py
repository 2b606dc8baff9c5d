"""Statistics of LeRobot datasets, and values normalized by them with lerobot's formulas."""

import io
import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray

from gpu_aug import Normalize
from readers import Sample, SourceError, open_dataset
from tests.support.lerobot import TOP, Robot, change_info
from tests.support.opening import open_with_warning, warnings_of

ROBOT = Robot(codec="mpeg4")
VALUES = ROBOT.values()
DELTAS = {"action": [-0.2, 0.0, 0.3], "observation.state": [-0.1, 0.0]}
MODES = ("mean_std", "min_max", "quantiles")
EPSILON = np.float32(1e-8)


def statistics() -> dict[str, Any]:
    """Statistics as lerobot writes them, of numbers and of pictures; the second action is constant in all of them."""
    stats: dict[str, Any] = {
        TOP: {name: [[[0.4]], [[0.5]], [[0.6]]] for name in ("mean", "std", "min", "max")}
    }
    for name in ("observation.state", "action", "reward", "grid", "timestamp"):
        values = VALUES[name].astype(np.float64)
        if name == "action":
            values[:, 1] = -1.0
        each = {
            "mean": values.mean(0),
            "std": values.std(0),
            "min": values.min(0),
            "max": values.max(0),
            "q01": np.quantile(values, 0.01, 0),
            "q99": np.quantile(values, 0.99, 0),
            "count": np.array(len(values)),
        }
        stats[name] = {key: np.atleast_1d(one).tolist() for key, one in each.items()}
    return stats


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with statistics."""
    root = ROBOT.write(tmp_path_factory.mktemp("robot"))
    (root / "meta/stats.json").write_text(json.dumps(statistics()))
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    shutil.copytree(made, tmp_path / "robot")
    return tmp_path / "robot"


def normalized(values: NDArray[Any], mode: str, stats: dict[str, Any]) -> NDArray[np.float32]:
    """Lerobot's formulas, written out; float64 is computed in float64."""
    dtype = values.dtype.type
    used = {name: np.array(one, dtype) for name, one in stats.items()}
    if mode == "mean_std":
        return ((values - used["mean"]) / (used["std"] + dtype(1e-8))).astype(np.float32)
    low, high = ("min", "max") if mode == "min_max" else ("q01", "q99")
    spread = np.where(used[high] == used[low], dtype(1e-8), used[high] - used[low])
    return (dtype(2) * (values - used[low]) / spread - dtype(1)).astype(np.float32)


def arrays(entry: Any) -> dict[str, NDArray[Any]]:
    """The numbers of a sample, by field."""
    assert isinstance(entry, Sample), entry
    return {
        name: np.load(io.BytesIO(one))
        for name, one in entry.fields.items()
        if bytes(one[:6]) == b"\x93NUMPY"
    }


@pytest.mark.parametrize("mode", MODES)
def test_values_by_lerobots_formulas(mode: Any, made: Path) -> None:
    """States and actions are normalized to the bit, padded rows as the frames they repeat, and nothing else changes."""
    plain = open_dataset(made, delta_timestamps=DELTAS)
    dataset = open_dataset(made, delta_timestamps=DELTAS, normalize=mode)
    stats, expected = statistics(), plain.fetch(range(14))

    for entry, stored in zip(dataset.fetch(range(14)), map(arrays, expected), strict=True):
        found = arrays(entry)
        assert found.keys() == stored.keys()
        for name, values in stored.items():
            wanted = values
            if name in DELTAS:
                wanted = normalized(values, mode, stats[name])
            assert found[name].dtype == wanted.dtype
            assert np.array_equal(found[name], wanted), name
    assert dataset.field_types == plain.field_types


def test_a_mapping_names_the_features(made: Path) -> None:
    """Each has its own formula; float64 becomes float32, and the others stay as stored."""
    modes: dict[str, Any] = {"reward": "min_max", "action": "quantiles"}
    dataset = open_dataset(made, normalize=modes)
    again = pickle.loads(pickle.dumps(dataset))
    stats = statistics()

    for one in (dataset, again):
        [entry] = one.fetch([5])
        found = arrays(entry)
        for name, mode in modes.items():
            wanted = normalized(VALUES[name][5:6], mode, stats[name])[0]
            assert (found[name].dtype, found[name].shape) == (np.float32, wanted.shape)
            assert np.array_equal(found[name], wanted)
        assert np.array_equal(found["observation.state"], VALUES["observation.state"][5])
        assert one.field_types["reward"] == ("float32", ())
    assert "normalize={'reward': 'min_max', 'action': 'quantiles'}" in repr(again)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_denormalize_is_the_inverse(mode: Any, kind: Any, made: Path) -> None:
    """For arrays and tensors; a constant feature comes back, too."""
    dataset = open_dataset(made, normalize=mode, delta_timestamps={"action": [0.0, 0.1]})
    stored = open_dataset(made, delta_timestamps={"action": [0.0, 0.1]})
    found, wanted = (
        np.stack([arrays(one)["action"] for one in which.fetch(range(14))])
        for which in (dataset, stored)
    )
    again = dataset.denormalize("action", kind(found))

    assert type(again) is type(kind(found))
    assert str(again.dtype).endswith("float32")
    if (
        mode == "mean_std"
    ):  # lerobot's inverse forgets where a value lay that its std says is constant
        wanted[..., 1] = -1.0
    np.testing.assert_allclose(again, wanted, rtol=1e-5, atol=2e-6)


def test_the_data_include_the_statistics(made: Path, root: Path) -> None:
    """Another formula, another feature or another statistic is another dataset; without normalization none is."""
    changed = statistics()
    changed["action"]["mean"][0] += 1
    ways: list[Any] = [None, *MODES, {"action": "mean_std"}, {"observation.state": "mean_std"}]
    prints = [open_dataset(made, normalize=way).fingerprint for way in ways]
    (root / "meta/stats.json").write_text(json.dumps(changed))
    others = [open_dataset(root, normalize=way).fingerprint for way in ways]

    assert len(set(prints)) == len(ways)
    assert [a == b for a, b in zip(prints, others, strict=True)] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]


def test_statistics_by_name(made: Path, root: Path) -> None:
    """Arrays of the features' shapes, of pictures one number per channel for the recipe; nobody changes them."""
    stats = open_dataset(made).stats
    mean, std = (stats[TOP][name].tolist() for name in ("mean", "std"))

    assert stats["reward"]["max"].shape == ()
    assert (stats["action"]["mean"].dtype, stats["action"]["mean"].shape) == (np.float64, (3,))
    assert Normalize(mean=mean, std=std) == Normalize(mean=(0.4, 0.5, 0.6), std=(0.4, 0.5, 0.6))
    with pytest.raises(ValueError, match="read-only"):
        stats["action"]["mean"][0] = 1
    (root / "meta/stats.json").unlink()
    with pytest.raises(SourceError, match=r"has no statistics of its features \(meta/stats.json"):
        _ = open_dataset(root).stats


def put(name: str, key: str, value: Any) -> dict[str, Any]:
    """Statistics with another value; None leaves one out."""
    stats = statistics()
    stats[name][key] = value
    if value is None:
        del stats[name][key]
    return stats


REFUSED: list[tuple[Any, Any, str]] = [
    ("min_max", None, r"has no statistics of its features"),
    ("min_max", [1], r"must have numbers by feature and statistic \(.*no JSON object"),
    ("min_max", put("action", "max", "high"), r"must have numbers by feature .*could not convert"),
    (
        "min_max",
        put("action", "max", [1.0]),
        r"'max' of 'action' .* shape \[1\], and the feature \[3\]",
    ),
    ("quantiles", put("action", "q99", None), r"no 'q99' of 'action', .*augment_dataset_quantile"),
    ("mean_std", put("action", "std", [1, -1, 1]), r"finite .* 'std' of 'action', with a std of 0"),
    ("mean_std", put("action", "std", [1, np.nan, 1]), r"finite numbers .* 'std' of 'action'"),
    ("min_max", put("action", "min", [1, 900, 1]), r"with a min of at most max"),
    ("standard", {}, r"must be \"mean_std\", .* got 'standard'"),
    (7, {}, r"by feature name, got 7"),
    ({"action": None}, {}, r"by feature name, got \{'action': None\}"),
    ({"velocity": "min_max"}, {}, r"must name features of floating-point numbers, which are obs"),
    ({"grid": "min_max"}, {}, r"must name features of floating-point numbers, which are obs"),
    ({"timestamp": "min_max"}, {}, r"which are observation\.state, action, reward; pictures"),
    ({TOP: "min_max"}, {}, r"pictures are normalized by Normalize in the recipe"),
    ({}, {}, r"by feature name, got \{\}"),
]


@pytest.mark.parametrize(("normalize", "stats", "says"), REFUSED, ids=[one[2] for one in REFUSED])
def test_refused(root: Path, normalize: Any, stats: Any, says: str) -> None:
    """One sentence says what is wrong with the option or the statistics."""
    path = root / "meta/stats.json"
    path.unlink() if stats is None else path.write_text(json.dumps(stats or statistics()))

    with pytest.raises(SourceError, match=says) as caught:
        open_dataset(root, normalize=normalize)
    assert "\n" not in str(caught.value)


def test_denormalize_refuses(made: Path) -> None:
    """A feature that is not normalized, and values of another shape."""
    dataset = open_dataset(made, normalize={"action": "min_max"})

    with pytest.raises(SourceError, match=r"'reward' is not normalized, only action"):
        dataset.denormalize("reward", np.zeros(3))
    with pytest.raises(SourceError, match=r"ends in \[3\], got \[3, 2\]"):
        dataset.denormalize("action", np.zeros((3, 2)))


def test_features_of_unknown_types_are_left_out(root: Path) -> None:
    """The dataset opens without them, and a warning names them; to ask for one is an error that names it."""
    features = json.loads((root / "meta/info.json").read_text())["features"]
    odd = {name: {"dtype": name, "shape": [2]} for name in ("audio", "points")}
    before = open_dataset(root)
    change_info(root, features=features | odd)
    says = r"2 features of .* have a type .* lack audio \(audio\), points \(points\)"
    dataset = open_with_warning(says, root)

    assert dataset.fetch([3]) == before.fetch([3])
    assert dataset.fingerprint == before.fingerprint
    with pytest.raises(SourceError, match="'audio', which is no feature that is read"):
        open_dataset(root, delta_timestamps={"audio": [0.0]})
    change_info(root, features=features | {"audio": odd["audio"]})
    assert re.search("1 feature of .* has a type", " ".join(warnings_of(root)))


def test_annotations_are_json(root: Path) -> None:
    """Lists of annotations, which lerobot calls "language", and lists of texts are given as JSON."""
    features = json.loads((root / "meta/info.json").read_text())["features"]
    kinds = {"language_events": ("language", [1]), "words": ("string", [2])}
    more = {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in kinds.items()}
    change_info(root, features=features | more)
    for path in root.glob("data/*/*.parquet"):
        table = pq.read_table(path, partitioning=None)
        events = [[{"role": "user", "content": f"öffne {n}"}][: n % 2] for n in range(len(table))]
        words = [["left", str(n)] for n in range(len(table))]
        table = table.append_column("language_events", pa.array(events))
        pq.write_table(table.append_column("words", pa.array(words)), path, row_group_size=4)
    entries = open_dataset(root, delta_timestamps={"words": [0.0]}).fetch([2, 3])

    found = [[bytes(one.fields[name]).decode() for name in kinds] for one in entries]
    assert found[0] == ["[]", json.dumps([json.dumps(["left", "2"])])]
    assert json.loads(found[1][0]) == [{"role": "user", "content": "öffne 3"}]


def test_renamed_features_have_the_statistics_of_their_stored_names(made: Path) -> None:
    """meta/stats.json knows only the stored names."""
    names = {"observation.state": "observation.joints"}
    plain = open_dataset(made, normalize={"observation.state": "min_max"})
    renamed = open_dataset(made, rename=names, normalize={"observation.joints": "min_max"})
    [before], [after] = plain.fetch([4]), renamed.fetch([4])

    assert isinstance(before, Sample)
    assert isinstance(after, Sample)
    assert after.fields["observation.joints"] == before.fields["observation.state"]
    assert renamed.stats.keys() >= {"observation.joints", TOP}
