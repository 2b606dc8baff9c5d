"""Where bytes lie: files, object stores, the block cache, shards and their side-car indexes."""
