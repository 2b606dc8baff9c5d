"""Dataset repositories of the Hugging Face Hub, downloaded into its cache or given as a local folder."""
