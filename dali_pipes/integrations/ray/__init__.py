"""Ray: preparing data on a cluster, Ray Data, Ray Train, and batches made on other machines."""
