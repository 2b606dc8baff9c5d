"""Plan one launch on the host, in one compiled function: from files to records and bytes that are uploaded together.

The arena receives, in this order: an IMAGE per decoded image, a VIEW per image and view, the bytes of the intervals,
TABLES, GROUP and INTERVAL records. For an image to cache on the device, the complete scan is copied to the end of the
arena instead of the intervals; the first such scan comes last. For an image that is cached already, no bytes are
copied. TOTALS state how much more device memory the kernels need.
"""

from typing import Any

from dali_pipes.decode.cuda_jpeg.huffman_tables import choose_tables, find_tables, write_tables
from dali_pipes.decode.cuda_jpeg.intervals import (
    find_next_needed,
    find_restarts,
    write_restart_unit,
    write_seek_point_unit,
)
from dali_pipes.decode.cuda_jpeg.records import (
    FRESH,
    GROUP,
    GROUP_BYTES,
    GROUP_MAX,
    IMAGE_BYTES,
    INTERVAL,
    INTERVAL_BYTES,
    KEPT,
    TABLES_BYTES,
    UPLOADED,
    VIEW_BYTES,
)
from dali_pipes.decode.cuda_jpeg.write_records import write_image, write_place, write_view
from dali_pipes.jpeg.file_bytes import copy_bytes
from dali_pipes.jpeg.header import read_header
from dali_pipes.jpeg.layout import check_crop, find_blocks, find_crop
from dali_pipes.jpeg.memory import memory_at, numbers
from dali_pipes.jpeg.status import GOOD
from gpu_aug.compiled.jit import inlined, inner, kernel, record_at, signed

UNKNOWN_STARTS = 100
"""Status of a file without restart markers and without known seek points; larger than all of
`dali_pipes.jpeg.status`."""
NO_ROOM, NO_TABLES, NO_INTERVALS, NO_STARTS = range(101, 105)
"""Statuses that name the memory that is too small: the arena, or that of tables, intervals or starts of intervals."""


FILE = numbers(
    "address num_bytes first_offset last_offset seek_points num_seek_points every keep kept kept_start"
)
"""An encoded image with its seek points and restart intervals.

address, num_bytes: Its bytes.
first_offset, last_offset: Its restart intervals, as a half-open range of all offsets.
seek_points, num_seek_points, every: Address of its SEEK_POINT rows, their number, and the MCUs from one seek point to
the next; 0 if none are known.
keep: 1 if this launch caches its scan on the device, else 0.
kept, kept_start: If the scan is cached, the device address of the file's byte `kept_start`, and that offset; else 0."""

TOTALS = numbers(
    "num_images num_groups num_intervals num_tables blocks memory pixels seen used fresh "
    "data_at groups_at intervals_at tables_at group_tables open_group"
)
"""Sums over a launch.

num_images, num_groups, num_intervals, num_tables: Number of records of each kind.
blocks: Blocks of 64 coefficients.
memory: Bytes of planes, parts and weights.
pixels, seen: Pixels of the largest part, and of the largest canvas.
used: Used bytes at the start of the arena.
fresh: Bytes at the end of the arena, which are cached on the device.
data_at, groups_at, intervals_at, tables_at: Offsets of these sections in the arena.
group_tables, open_group: Tables and number of intervals of the group that is being filled."""

_interval_at, _group_at = record_at(INTERVAL), record_at(GROUP)
_NOWHERE = signed(-1)
"""Returned instead of an address or offset if the memory is too small."""


@kernel
def plan_batch(
    files: Any,
    offsets: Any,
    sizes: Any,
    parts: Any,
    crops: Any,
    canvases: Any,
    antialias: Any,
    memories: Any,
    numbers: Any,
    statuses: Any,
    fresh: Any,
    totals: Any,
) -> int:
    """Write everything that the kernels need for a launch into an arena.

    Args:
        files: FILE [n].
        offsets: int64 [...], offsets at which restart intervals begin, for the files that have known ones.
        sizes: int64 [n, 2]: height and width of the upright images.
        parts: RECT [n], the part of each image that all its views together need.
        crops: CROP [V, n], the crop of each view.
        canvases: int64 [V, n, 3], address on the device, height and width; the pixels are packed RGB.
        antialias: bool [V], whether each view is low-pass filtered when it shrinks.
        memories: Five arrays: the arena, intermediate records, the decoder's memory and stored tables [k, 4,
            TABLE_BYTES], all uint8; and int64 [...] for offsets. Aligned to 8 bytes, the arena to 16.
        numbers: int32 [n], written: index of each image in the launch; -1 if the kernels do not decode it.
        statuses: int32 [n], written: GOOD, or the reason why the kernels do not decode the image.
        fresh: int64 [n, 2], written: for a scan at the end of the arena, the distance of its start from the end, and
            the offset of its first byte in the file; else 0.
        totals: TOTALS [1], written: counts of records and sizes of memory.

    Returns:
        GOOD, or a status from NO_ROOM on that names the memory that is too small; the outputs are invalid then.
    """
    arena, records, scratch, stored, starts = memories
    total = totals[0]
    num_files, num_views = len(files), len(crops)
    total.num_images = total.num_groups = total.num_intervals = total.num_tables = 0
    total.blocks = total.memory = total.pixels = total.seen = total.open_group = total.fresh = 0
    fresh[:] = 0
    total.data_at = num_files * (IMAGE_BYTES + num_views * VIEW_BYTES)
    total.used = total.data_at = _round_up(total.data_at)
    address = signed(scratch.ctypes.data)
    chosen = starts[:4]
    for row in range(num_files):
        numbers[row] = -1
        statuses[row] = _read_image(memory_at(address), files[row], sizes[row], parts[row], chosen)
        if statuses[row] != GOOD:
            continue
        # Rounded down: kernels read aligned 16-byte words.
        start = memory_at(address).header.scan // 16 * 16
        place = _choose_place(files[row], start)
        status = _add(
            memory_at(address), files[row], offsets, (arena, records, stored, starts), place, total
        )  # fmt: skip
        if status >= NO_ROOM:
            return status
        statuses[row] = status
        if status != GOOD:
            continue
        number = total.num_images
        base = signed(arena.ctypes.data)
        write_image(memory_at(address), chosen, base + number * IMAGE_BYTES, total)
        write_place(base + number * IMAGE_BYTES, place, files[row], start, total)
        if place == FRESH:
            fresh[row, 0], fresh[row, 1] = total.fresh, start
        for view in range(num_views):
            at = base + num_files * IMAGE_BYTES + (number * num_views + view) * VIEW_BYTES
            source = base + number * IMAGE_BYTES
            write_view(
                at, source, parts[row], crops[view, row], canvases[view, row], antialias[view],
                number * num_views + view, total,
            )  # fmt: skip
        numbers[row] = number
        total.num_images += 1
    _close_group(records, total)
    return _append_records(arena, records, total)


@inlined
def _read_image(memory: Any, file: Any, size: Any, part: Any, chosen: Any) -> int:
    """Read a file's header, and find the blocks and tables that its crop needs, and return a status."""
    job = memory.job
    job.data, job.length = file.address, file.num_bytes
    job.top, job.left, job.height, job.width = part.top, part.left, part.height, part.width
    job.full_height, job.full_width = size[0], size[1]
    job.shrink, job.out, job.row_bytes = 1, 0, part.width * 3
    status = read_header(memory)
    if status == GOOD:
        status = check_crop(job, memory.header)
    if status != GOOD:
        return status
    find_crop(memory)
    find_blocks(memory)
    return choose_tables(memory.header, chosen)


@inlined
def _choose_place(file: Any, start: int) -> int:
    """Return where the kernels read an image's bytes: KEPT (scan is cached from byte `start` on), FRESH or UPLOADED."""
    if file.kept and file.kept_start == start:
        return KEPT
    return FRESH if file.keep else UPLOADED


@inner
def _add(memory: Any, file: Any, offsets: Any, memories: Any, place: int, total: Any) -> int:
    """Add the tables and intervals of an image; return a status. Intervals are removed again if it is not GOOD."""
    arena, records, stored, starts = memories
    tables, status = _add_tables(memory, starts[:4], records, stored, total)
    if status != GOOD:
        return signed(status)
    before = total.num_intervals, total.num_groups, total.open_group, total.group_tables, total.used
    status = _add_intervals(memory, file, offsets, (arena, records, starts), (tables, place), total)
    if status == GOOD and place == FRESH:
        status = _copy_scan(memory, arena, total)
    if status != GOOD and status < NO_ROOM:
        total.num_intervals, total.num_groups, total.open_group, total.group_tables, total.used = before  # fmt: skip
    return signed(status)


@inlined
def _add_tables(memory: Any, chosen: Any, records: Any, stored: Any, total: Any) -> Any:
    """Return the index of the image's set of tables, which is added if it is new, and a status."""
    tables = find_tables(memory, chosen, stored, total.num_tables)
    status = GOOD
    if tables < 0:
        tables = total.num_tables
        if tables >= len(stored):
            status = NO_TABLES
        else:
            target = signed(records.ctypes.data) + tables * TABLES_BYTES
            status = write_tables(memory, chosen, target)
        if status == GOOD:
            for place in range(4):
                stored[tables, place] = memory.huffman[chosen[place]]
            total.num_tables += 1
    return tables, status


@inlined
def _copy_scan(memory: Any, arena: Any, total: Any) -> int:
    """Copy a file's scan in front of the scans at the end of the arena and return a status."""
    job, start = memory.job, memory.header.scan // 16 * 16
    total.fresh += (job.length - start + 15) // 16 * 16
    if total.used > _find_limit(arena, total):
        return NO_ROOM
    to = signed(arena.ctypes.data) + len(arena) - total.fresh
    copy_bytes(to, job.data + start, job.length - start)
    return GOOD


@inlined
def _find_limit(arena: Any, total: Any) -> int:
    """Return the offset in the arena at which the scans to cache begin."""
    return signed(len(arena) - total.fresh)


@inner
def _add_intervals(
    memory: Any, file: Any, offsets: Any, memories: Any, how: Any, total: Any
) -> int:
    (arena, records, starts), (tables, place) = memories, how
    header, grid, job = memory.header, memory.grid, memory.job
    num_mcus = grid.mcus_across * grid.mcus_down
    each, status = _measure_units(memory, file, num_mcus, starts)
    if status != GOOD:
        return signed(status)
    known = offsets[file.first_offset : file.last_offset]
    if not len(known):
        known = starts[4 : 4 + (num_mcus + each - 1) // each]
    room = _find_limit(arena, total)
    run_begin, run_end, run_to = signed(0), signed(0), signed(total.used)
    mcu = find_next_needed(0, grid)
    while mcu < num_mcus:
        number = mcu // each
        out = _next_interval(records, total, tables)
        if out < 0:
            return NO_INTERVALS
        if header.restart:
            status = write_restart_unit(job.data, header.scan, job.length, known, number, out)
        else:
            status = write_seek_point_unit(job.data, header.scan, job.length, file, number, out)
        if status != GOOD:
            return status
        interval = _interval_at(out)
        interval.image, interval.mcu = total.num_images, number * each
        interval.count = min(each, num_mcus - number * each)
        mcu = find_next_needed((number + 1) * each, grid)
        if place != UPLOADED:
            continue
        begin, end = signed(interval.begin), signed(interval.end)
        if begin < run_begin or begin > run_end:
            run_to = _copy_run(arena, room, job.data, run_begin, run_end, run_to)
            run_begin, run_end = begin, begin
        run_end = max(run_end, end)
        moved = run_to - total.data_at - run_begin
        interval.begin, interval.end = begin + moved, end + moved
        if run_to < 0 or run_to + run_end - run_begin > room:
            return NO_ROOM
    run_to = _copy_run(arena, room, job.data, run_begin, run_end, run_to)
    total.used = run_to
    return GOOD if run_to >= 0 else NO_ROOM


@inlined
def _measure_units(memory: Any, file: Any, num_mcus: int, starts: Any) -> Any:
    """Return the MCUs per unit and a status; write the starts of restart intervals from `starts[4]` on."""
    header, job = memory.header, memory.job
    each, status = signed(header.restart), signed(GOOD)
    if not header.restart:
        each = file.every
        expected = (num_mcus - 1) // max(each, 1)
        if each < 1 or file.num_seek_points != expected:
            status = signed(UNKNOWN_STARTS)
    elif file.first_offset == file.last_offset:
        count = (num_mcus + each - 1) // each
        if 4 + count > len(starts):
            status = signed(NO_STARTS)
        else:
            status = signed(find_restarts(job.data, header.scan, job.length, starts[4 : 4 + count]))
    elif file.last_offset - file.first_offset != (num_mcus + each - 1) // each:
        status = signed(UNKNOWN_STARTS)
    return each, status


@inlined
def _next_interval(records: Any, total: Any, tables: int) -> int:
    """Return the address of the next interval, in a group with equal tables; -1 if the memory is too small."""
    if total.open_group == GROUP_MAX or (total.open_group and total.group_tables != tables):
        _close_group(records, total)
    total.group_tables = tables
    at = _intervals_at(records) + total.num_intervals * INTERVAL_BYTES
    total.num_intervals += 1
    total.open_group += 1
    end = signed(records.ctypes.data) + len(records)
    return signed(at if at + INTERVAL_BYTES + (total.num_groups + 2) * GROUP_BYTES <= end else _NOWHERE)  # fmt: skip


@inner
def _intervals_at(records: Any) -> int:
    """Return the address of the first interval: after the half of the records for tables. Groups fill the end, backwards."""
    return signed(signed(records.ctypes.data) + len(records) // 32 * 16)


@inner
def _close_group(records: Any, total: Any) -> None:
    if total.open_group:
        total.num_groups += 1
        end = signed(records.ctypes.data) + len(records) // 16 * 16
        group = _group_at(end - total.num_groups * GROUP_BYTES)
        group.first, group.count = total.num_intervals - total.open_group, total.open_group
        group.tables, group.unused = total.group_tables, 0
        total.open_group = 0


@inlined
def _copy_run(arena: Any, room: int, data: int, begin: int, end: int, target: int) -> int:
    """Copy a run of bytes of a file into the arena; return the offset after it, or -1 if it does not fit."""
    if target < 0 or target + end - begin > room:
        return _NOWHERE
    if end > begin:
        copy_bytes(signed(arena.ctypes.data) + target, data + begin, end - begin)
    return signed(target + end - begin)


@inner
def _append_records(arena: Any, records: Any, total: Any) -> int:
    """Copy tables, groups and intervals behind the bytes of the intervals, and return a status."""
    total.tables_at = _round_up(total.used)
    total.groups_at = total.tables_at + total.num_tables * TABLES_BYTES
    total.intervals_at = total.groups_at + total.num_groups * GROUP_BYTES
    total.used = _round_up(total.intervals_at + total.num_intervals * INTERVAL_BYTES)
    if total.used > _find_limit(arena, total):
        return NO_ROOM
    base, source = signed(arena.ctypes.data), signed(records.ctypes.data)
    copy_bytes(base + total.tables_at, source, total.num_tables * TABLES_BYTES)
    end = source + len(records) // 16 * 16
    for number in range(total.num_groups):
        at = base + total.groups_at + number * GROUP_BYTES
        copy_bytes(at, end - (number + 1) * GROUP_BYTES, signed(GROUP_BYTES))
    copy_bytes(base + total.intervals_at, _intervals_at(records), total.num_intervals * INTERVAL_BYTES)  # fmt: skip
    return GOOD


@inlined
def _round_up(number: int) -> int:
    return (number + 255) // 256 * 256
