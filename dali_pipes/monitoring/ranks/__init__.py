"""Ranks that wait for each other, and loops that stand still: heartbeats, late ranks and stalls.

`watch` looks after the loops of a loader: one thread samples what a loop does (`pulse`) and reports a stall (`stall`);
another leaves reports of this rank (`rank_report`) on a `board`, and warns about late and silent ranks (`peers`).
"""
