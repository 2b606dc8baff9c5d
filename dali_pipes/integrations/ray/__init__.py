"""Ray: preparing data on a cluster, Ray Data, and batches made on other machines."""
