"""Use Ray: prepare data on a cluster, exchange data with Ray Data, and make batches on other machines."""
