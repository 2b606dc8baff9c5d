"""Tables that files share are made once: what is decoded does not depend on the files before."""

import numpy as np

from dali_pipes.jpeg import REASONS
from dali_pipes.jpeg.huffman_tables import END
from dali_pipes.jpeg.memory import _MEMORY
from dali_pipes.jpeg.status import BAD_NUMBER
from tests.support.jpegs import (
    SAMPLINGS,
    draw_crop,
    encode,
    opencv,
    ours,
    picture,
    used_scratch,
    with_code_of_ones,
)

SIZE = (48, 64)
ENDS = END << 16 | END << 8 | 1  # a block ends with the next bit


def kept(trial: int) -> bytes:
    """Files that share tables with others, or differ in one kind of them."""
    sampling = [*SAMPLINGS, "gray"][trial % 6]
    quality = [40, 85, 97, 100][trial // 2 % 4]
    return encode(picture(*SIZE, trial), sampling, quality=quality, optimise=trial % 5 == 0)


def test_one_memory_for_many_files() -> None:
    """Crops that are read, and passed, out of files of several qualities and Huffman tables, refused ones in between."""
    rng, scratch = np.random.default_rng(0), used_scratch(max(SIZE))
    for trial in range(150):
        data = kept(int(rng.integers(40)))
        if trial % 4 == 3:
            refused = with_code_of_ones(encode(picture(*SIZE), "4:2:0"))
            assert ours(refused, SIZE, scratch=scratch)[0] != 0
        top, left, height, width = draw_crop(rng, *SIZE)

        status, pixels = ours(
            data, SIZE, (top, left, height, width), judge=trial % 2 == 0, scratch=scratch
        )

        assert status == 0
        cut = opencv(data)[top : top + height, left : left + width]
        np.testing.assert_array_equal(pixels, cut)


def test_numbers_out_of_range_are_found_whatever_came_before() -> None:
    """Quantisation steps decide what is out of range, in files whose Huffman tables are the same."""
    scratch = used_scratch(max(SIZE))
    sound = encode(picture(*SIZE), "4:2:0", quality=96)
    first_ac = sound.index(b"\xff\xdb") + 6
    wide = sound[:first_ac] + bytes([255]) + sound[first_ac + 1 :]
    seen = []
    for data in (sound, wide, sound, wide):
        for judge in (True, False):
            alone, _ = ours(data, SIZE, (0, 0, 8, 8), judge=judge)
            status, _ = ours(data, SIZE, (0, 0, 8, 8), judge=judge, scratch=scratch)
            assert status == alone
            seen.append(status)
    assert len(set(seen)) > 1


def test_what_is_passed_over_is_judged_by_the_steps_of_its_own_file() -> None:
    """Large numbers with short codes, in blocks that are only passed; the file before has small steps."""
    scratch = used_scratch(max(SIZE))
    wave = 128 + 18 * np.cos(
        (2 * np.arange(SIZE[1]) + 1) * np.pi / 16
    )  # 102 in each block's second coefficient
    pixels = np.broadcast_to(np.rint(wave).astype(np.uint8)[None, :, None], (*SIZE, 3)).copy()
    pixels[:16, :16] = 128
    sound = encode(pixels, "gray", quality=100, optimise=True)
    first_ac = sound.index(b"\xff\xdb") + 6
    wide = sound[:first_ac] + bytes([255]) + sound[first_ac + 1 :]

    found = [
        REASONS[ours(data, SIZE, (0, 0, 8, 8), judge=True, scratch=scratch)[0]]
        for data in (sound, wide)
    ]

    assert found == ["decoded", REASONS[BAD_NUMBER]]


def test_equal_tables_are_made_once() -> None:
    """What a second file with the same tables finds in them is taken as it is."""
    scratch = used_scratch(max(SIZE))
    ours(encode(picture(*SIZE), "4:2:0"), SIZE, scratch=scratch)
    memory = scratch[: _MEMORY.itemsize].view(_MEMORY)
    assert memory["made"]["is_there"][0].tolist() == [1, 1, 0, 0, 1, 1, 0, 0]

    memory["pairs"] = ENDS
    assert ours(encode(picture(*SIZE), "4:2:0", optimise=True), SIZE, scratch=scratch)[0] == 0
    memory["pairs"] = ENDS
    assert ours(encode(picture(*SIZE), "4:2:0", optimise=True), SIZE, scratch=scratch)[0] != 0
