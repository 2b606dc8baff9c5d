"""Loading what can only be read forward: shards divided among ranks, a shuffle buffer, exact replay."""
