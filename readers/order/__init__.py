"""The order of samples: shuffles, buckets, mixtures; functions of (seed, epoch, position)."""
