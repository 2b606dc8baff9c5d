"""Shards that are planned beforehand, so that anybody can make any of them: plans, making, merging."""
