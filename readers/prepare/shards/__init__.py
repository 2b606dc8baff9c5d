"""Planned shards, each of which any machine can make: the plan, the making and the merging."""
