"""Report ranks that delay the others, and loops that stall: heartbeats, late ranks and stall reports.

`watch` monitors the loops of a loader. One thread samples a loop's progress (`pulse`) and reports a stall (`stall`).
Another thread writes reports of this rank (`rank_report`) to a `board`, and warns about late and silent ranks
(`heartbeat_sender`).
"""
