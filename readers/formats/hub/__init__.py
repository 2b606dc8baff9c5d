"""Dataset repositories of the Hugging Face Hub: from its cache, downloaded into it, or as folders."""
