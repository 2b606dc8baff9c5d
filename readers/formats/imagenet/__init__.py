"""ImageNet (ILSVRC 2012) as it is handed out: with its development kit, and as Kaggle has it."""
