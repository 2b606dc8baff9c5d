"""Loading streams (data that can only be read forward): shards divided among ranks, a shuffle buffer, exact resume."""
