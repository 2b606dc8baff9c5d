"""ImageNet (ILSVRC 2012) with its development kit, or in Kaggle's layout."""
