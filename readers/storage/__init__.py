"""Files, object stores, the cache of blocks, shards, and side files such as indexes."""
