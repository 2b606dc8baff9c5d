"""Selections of datasets: which samples they have, what they keep of the whole, and what is refused."""

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from readers.datasets.dataset import IndexedDataset, Subset
from readers.sample import BadSample, Sample, SelectionError
from tests.support.small import HugeDataset, SmallDataset

LENGTHS = [3, 4, 7, 10, 100, *(2**k + d for k in (6, 8, 9, 10) for d in (-1, 0, 1))]


@pytest.fixture
def dataset() -> SmallDataset:
    """60 samples of three classes in turn, of heights from 100, the one at 33 bad."""
    images = [bytes([number]) * (number + 1) for number in range(60)]
    images[33] = b""
    return SmallDataset(images, [number % 3 for number in range(60)], ("cat", "dog", "old car"))


class Values(NamedTuple):
    """What is known of a sample."""

    label: int
    height: int
    size: int


def in_whole(subset: Subset) -> list[int]:
    return subset.indices_in_whole(range(len(subset))).tolist()


class TestWhere:
    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("label == 1", lambda v: v.label == 1),
            ("label in [1, 2]", lambda v: v.label in [1, 2]),
            ("label not in (1, -2)", lambda v: v.label not in (1, -2)),
            ("label == 'dog'", lambda v: v.label == 1),
            ("'old car' != label", lambda v: v.label != 2),
            ('label in ["cat", "old car"]', lambda v: v.label in [0, 2]),
            (
                "label in [1, 2] and height >= 120 and not height > 150",
                lambda v: v.label in [1, 2] and v.height >= 120 and not v.height > 150,
            ),
            ("110 <= height < 114", lambda v: 110 <= v.height < 114),
            (
                "height * width > 30_000 or num_bytes < 3",
                lambda v: v.height * 200 > 30_000 or v.size < 3,
            ),
            ("height / width <= 0.55", lambda v: v.height / 200 <= 0.55),
            ("height % 7 == 3", lambda v: v.height % 7 == 3),
            ("-height + 2 * width - 1 > +280", lambda v: -v.height + 399 > 280),
            ("height // 10 in {10, 12}", lambda v: v.height // 10 in (10, 12)),
            (" (\nlabel == 0)", lambda v: v.label == 0),
            (
                "label == 0 or height / label > 60",
                lambda v: v.label == 0 or v.height / v.label > 60,
            ),
        ],
    )
    def test_as_python_sees_it(
        self, dataset: SmallDataset, text: str, rule: Callable[[Values], bool]
    ) -> None:
        """A condition holds where Python's own evaluation says so, and samples keep their order."""
        expected = [
            index
            for index, image in enumerate(dataset.images)
            if rule(Values(dataset.labels[index], 100 + index, len(image)))
        ]

        assert 0 < len(expected) < 60
        assert in_whole(dataset.where(text)) == expected

    def test_columns_are_read_once_and_no_others(self, dataset: SmallDataset) -> None:
        """Only what the condition names is asked for."""
        dataset.where("height > 110 and height < 120 or height == 159")

        assert dataset.columns_read == ["height"]
        assert dataset.fetched == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "key == 'a'",
                r"'key' in the condition .* is not a column; allowed are the columns label,",
            ),
            (
                "label == height.real",
                r"'height.real' .* is neither a number nor a column; allowed are",
            ),
            ("not label.startswith('a')", r'"label.startswith\(.a.\)" in .* is not true or false'),
            ("__import__('os').system('true') == 0", r"is neither a number nor a column"),
            ("[x for x in (1,)] == 1", r"is neither a number nor a column"),
            ("(lambda: 1)() == label", r"is neither a number nor a column"),
            ("label[0] == 1", r"'label\[0\]' .* is neither a number nor a column"),
            ("f'{label}' == label", r"is neither a number nor a column"),
            ("label", r"'label' .* is not true or false: compare it"),
            ("height and label == 1", r"'height' .* is not true or false"),
            ("label == True", r"'True' .* is neither a number"),
            ("label is 1", r"compares in a way that numbers do not"),
            ("height == 'cat'", r"is neither a number nor a column"),
            ("label < 'dog'", r"is neither a number nor a column"),
            ("label in height", r"'height' .* is not a list of numbers"),
            ("label in [height]", r"has columns in it"),
            ("label in 'cat'", r"is not a list of numbers"),
            ("label ** 2 == 4", r"'label \*\* 2' .* is neither a number nor a column"),
            ("height == 0 or label == 10**3", r"'10\*\*3'"),
            ("height == 1e400 * 0", r"'1e400 \* 0' .* has no value \(it is too large a number\)"),
            ("height / label > 60", r"has no value for 20 samples, the first of them 0 .* by zero"),
            ("height > 0 and 1 < width % label", r"'width % label' .* no value for 20 samples"),
            ("label * 5000000000000000000 > 0", r"no value for 20 samples.* too large a number"),
            ("not label // 0 == 1", r"no value for 60 samples"),
            ("label == 99999999999999999999", r"a number that is too large"),
            ("label ==", r"cannot be read \(invalid syntax\)"),
            ("label = 1", r"cannot be read"),
            ("", r"cannot be read"),
            ("1 == 1", r"names no column"),
            (
                "label == 'mouse'",
                r"names the class 'mouse', which there is not; the classes are cat, dog",
            ),
            ("height > 1000", r"holds for none of the 60 samples; labels are -1, heights"),
            ("(" * 5000 + "label" + ")" * 5000 + " == 1", r"cannot be read"),
            ("not " * 20_000 + "label == 1", r"cannot be read|too nested"),
            ("label == 1" + " + 0" * 20_000, r"cannot be read|too nested"),
        ],
        ids=lambda text: text[:40],
    )
    @pytest.mark.filterwarnings("ignore:.*is.* with:SyntaxWarning")
    def test_refused(self, dataset: SmallDataset, text: str, message: str) -> None:
        """Anything but a comparison of columns is refused: the part is named, with what is allowed."""
        with pytest.raises(SelectionError, match=message):
            dataset.where(text)

    def test_truths(self, dataset: SmallDataset) -> None:
        """A truth for each sample selects as well; other shapes and numbers do not."""
        truths = np.arange(60) % 7 == 0

        assert in_whole(dataset.where(truths)) == list(range(0, 60, 7))
        assert in_whole(dataset.where(truths.tolist())) == list(range(0, 60, 7))
        for wrong in (truths[:-1], np.arange(60), [1, 2]):
            with pytest.raises(SelectionError, match=r"a truth for each of the 60 samples, got"):
                dataset.where(wrong)

    def test_class_without_names(self) -> None:
        """Where classes have no names, a name is refused and the number asked for."""
        with pytest.raises(SelectionError, match="does not name its classes; give the number"):
            HugeDataset(10).where("label == 'cat'")

    def test_unknown_columns(self) -> None:
        """A column that the data knows of no sample is refused, lest every sample be lower than 300."""
        for text in ("height < 300", "label == 1 or not width >= 5", "num_bytes < 10"):
            with pytest.raises(SelectionError, match="which the data does not say of any sample"):
                HugeDataset(10).where(text)
        unlabelled = SmallDataset([b"x", b"y"], [-1, -1])
        with pytest.raises(SelectionError, match="asks for label"):
            unlabelled.where("label < 3")
        assert len(SmallDataset([b"x", b"y"], [-1, 1]).where("label < 3")) == 2

    def test_memory(self) -> None:
        """Four bytes are kept for each selected sample."""
        assert (
            len(pickle.dumps(HugeDataset(1_000_000).where("label in [3, 4]"))) < 4 * 200_000 + 1000
        )


class TestTake:
    @pytest.mark.parametrize(
        ("which", "expected"),
        [
            (5, range(5)),
            (np.int64(2), range(2)),
            (slice(10, 20, 3), range(10, 20, 3)),
            (slice(None, None, -1), range(59, -1, -1)),
            (slice(-5, None), range(55, 60)),
            (range(50, 10, -7), range(50, 10, -7)),
            ([3, 59, 3, 0], [3, 59, 3, 0]),
            (np.array([7, 8], np.uint8), [7, 8]),
        ],
        ids=str,
    )
    def test_indices(self, dataset: SmallDataset, which: Any, expected: Any) -> None:
        """A number, a slice, a range or a list says which samples, in its order."""
        subset = dataset.take(which)

        assert in_whole(subset) == list(expected)
        keys = [sample.key for sample in subset.fetch(range(len(subset)))]
        assert keys == [f"small/{index}" for index in expected]

    @pytest.mark.parametrize(
        ("which", "message"),
        [
            (0, r"take\(0\) is not possible; there are 60 samples"),
            (61, r"take\(61\) is not possible"),
            (range(5, 5), "must name at least one sample"),
            (range(50, 70), "must name at least one sample, of 0 <= index < 60"),
            (range(5, -2, -1), "must name at least one sample"),
            ([], "a list of at least one index"),
            ([1.5], r"got float64 \[1\]"),
            ([True, False], r"got bool \[2\]; truths are for where"),
            ([[1]], r"got int64 \[1, 1\]"),
            ([0, 60], "outside of 0 <= index < 60: they go from 0 to 60"),
            ([-1], "outside of 0 <= index < 60"),
            (True, "got bool"),
        ],
        ids=str,
    )
    def test_refused(self, dataset: SmallDataset, which: Any, message: str) -> None:
        """Samples that there are not are refused when the selection is made."""
        with pytest.raises(SelectionError, match=message):
            dataset.take(which)


class TestSplit:
    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.parametrize(
        "shares", [(0.9, 0.1), (0.5, 0.25, 0.25), (1.0,), (0.34, 0.33, 0.33), (1, 2), (0.4, 0.3)]
    )
    def test_parts_are_disjoint(self, length: int, shares: tuple[float, ...]) -> None:
        """Every sample is in one part at most, and in one where the shares are the whole."""
        if any(isinstance(share, float) and share * length < 0.5 for share in shares):
            pytest.skip("a part would be empty")
        try:
            parts = HugeDataset(length).split(*shares, seed=3)
        except SelectionError:
            assert length < 10
            return
        found = [index for part in parts for index in in_whole(part)]

        assert len(set(found)) == len(found)
        assert set(found) <= set(range(length))
        if abs(sum(shares) - 1) < 1e-9:
            assert len(found) == length

    def test_sizes_are_exact(self) -> None:
        """Shares are of all samples; numbers are numbers."""
        for length, shares, sizes in (
            (50_000, (0.9, 0.1), [45_000, 5_000]),
            (50_000, (0.7, 0.2, 0.1), [35_000, 10_000, 5_000]),
            (50_000, (49_000, 10), [49_000, 10]),
            (10, (1 / 3, 1 / 3, 1 / 3), [3, 4, 3]),
        ):
            assert [len(part) for part in HugeDataset(length).split(*shares)] == sizes

    def test_neighbours_are_divided_evenly(self) -> None:
        """Data that is sorted by class is divided evenly within its classes, to a few samples."""
        length = 40_000
        small = HugeDataset(length).split(0.9, 0.1)[1]
        of_class = np.bincount(np.array(in_whole(small)) // 1000)

        assert len(of_class) == 40
        assert abs(of_class - 100).max() <= 12
        drawn = np.random.default_rng(0).permutation(length)[:4000]
        assert abs(np.bincount(drawn // 1000) - 100).max() > 12  # what chance alone would do

    def test_every_sample_is_as_likely(self) -> None:
        """Over many seeds, all samples are equally often in a part: those of the last, small group, too."""
        length, num_seeds = 300, 1000
        counts = np.zeros(length)
        for seed in range(num_seeds):
            counts[in_whole(HugeDataset(length).split(0.2, 0.3, 0.5, seed=seed)[1])] += 1
        expected = num_seeds * 0.3
        spread = ((counts - expected) ** 2 / (expected * 0.7)).sum()

        assert spread < length + 4.5 * np.sqrt(2 * length)
        counts[-1] += expected
        assert ((counts - expected) ** 2 / (expected * 0.7)).sum() > length + 4.5 * np.sqrt(600)

    def test_golden_split(self) -> None:
        """Splits are the same in every version: trained models depend on what they have not seen."""
        one = in_whole(HugeDataset(20).split(0.75, 0.25, seed=1)[1])
        huge = HugeDataset(10**12).split(0.9, 0.1)[1].indices_in_whole([0, 10**11 - 1])

        assert (one, huge.tolist()) == ([8, 9, 4, 7, 17], [518676062324, 518676062098])

    @pytest.mark.parametrize(
        ("shares", "message"),
        [
            (
                (0.9, 0.2),
                r"split\(0.9, 0.2\) of 60 samples is not possible; give shares of at most 1",
            ),
            ((0.999, 0.001), r"is not possible \(sizes \[60, 0\]\)"),
            ((50, 11), r"is not possible \(sizes \[50, 11\]\)"),
            ((-0.1, 0.5), "is not possible"),
            ((0, 5), "is not possible"),
            ((), "is not possible"),
            (("half",), "is not possible"),
            ((float("nan"),), "is not possible"),
        ],
        ids=str,
    )
    def test_refused(self, dataset: SmallDataset, shares: Any, message: str) -> None:
        """Shares that cannot be given are named with what could."""
        with pytest.raises(SelectionError, match=message):
            dataset.split(*shares)
        with pytest.raises(SelectionError, match="seed=-1"):
            dataset.split(0.5, seed=-1)


SELECTIONS: dict[str, Callable[[IndexedDataset], IndexedDataset]] = {
    "where": lambda data: data.where("label != 1"),
    "take": lambda data: data.take(40),
    "list": lambda data: data.take([5, 33, 2, 5]),
    "reversed": lambda data: data.take(slice(None, None, -1)),
    "split": lambda data: data.split(0.75, 0.25)[0],
    "other split": lambda data: data.split(0.75, 0.25, seed=1)[0],
    "other part": lambda data: data.split(0.75, 0.25)[1],
    "nested": lambda data: data.where("height < 150").split(0.8, 0.2)[0].take(range(1, 30, 2)),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_selection_is_a_dataset(dataset: SmallDataset, name: str) -> None:
    """Own indices, the whole's keys, labels, classes and columns, bad samples in their place."""
    subset = SELECTIONS[name](dataset)
    assert isinstance(subset, Subset)
    count = len(subset)
    wanted = [count - 1, 0, 0, *range(count)]
    fetched = subset.fetch(wanted)
    columns = {column: subset.column(column).tolist() for column in ("label", "height")}

    assert ([entry.index for entry in fetched], subset.class_names) == (wanted, dataset.class_names)
    assert len(columns["label"]) == count
    for entry in fetched:
        place = int(entry.key.removeprefix("small/"))
        assert columns["height"][entry.index] == 100 + place
        if place == 33:
            assert isinstance(entry, BadSample)
        else:
            assert isinstance(entry, Sample)
            assert entry.label == place % 3 == columns["label"][entry.index]
            assert entry.fields["jpg"] == dataset.images[place]
    with pytest.raises(IndexError, match=f"0 <= index < {count}"):
        subset.fetch([count])
    assert subset.fetch([]) == []


@pytest.mark.parametrize("name", SELECTIONS)
def test_pickled_it_is_the_same(dataset: SmallDataset, name: str) -> None:
    """Another process gets the same samples and the same fingerprint."""
    subset = SELECTIONS[name](dataset)
    copy = pickle.loads(pickle.dumps(subset))

    assert copy.fingerprint == subset.fingerprint
    assert [entry.key for entry in copy.fetch(range(len(copy)))] == [
        entry.key for entry in subset.fetch(range(len(subset)))
    ]


def test_fingerprints_tell_selections_apart(dataset: SmallDataset) -> None:
    """Another selection, another whole: another fingerprint; the same one made anew: the same."""
    prints = [make(dataset).fingerprint for make in SELECTIONS.values()]
    other = SmallDataset(dataset.images, dataset.labels, dataset.class_names, name="other")

    assert len({dataset.fingerprint, *prints}) == len(prints) + 1
    assert prints == [make(dataset).fingerprint for make in SELECTIONS.values()]
    assert not {make(other).fingerprint for make in SELECTIONS.values()} & set(prints)
    assert dataset.take(5).fingerprint == dataset.take(range(5)).fingerprint
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in prints)


def test_block_size_follows_the_density() -> None:
    """Blocks hold about as many samples as a block of the whole has in the selection."""
    dataset = HugeDataset(10_000)
    assert dataset.block_size == 256

    assert dataset.take(5000).block_size == 256
    assert dataset.take(range(0, 10_000, 4)).block_size == 64
    assert dataset.split(0.75, 0.25)[1].block_size == 64
    assert dataset.where("label in [0, 5]").block_size == 51
    assert dataset.take(np.random.default_rng(0).permutation(10_000)).block_size == 1
