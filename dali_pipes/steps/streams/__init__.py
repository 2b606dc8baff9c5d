"""Load streams (data that can only be read forward): divide shards among ranks, shuffle in a buffer, resume exactly."""
