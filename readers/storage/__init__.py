"""Access to files, object stores and shards, the cache of remote blocks, and side files such as indexes."""
