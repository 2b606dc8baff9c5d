"""Ranks that wait for each other, and loops that stand still: heartbeats, who is late, what hangs."""
