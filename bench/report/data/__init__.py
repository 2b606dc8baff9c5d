"""What an inspection found in data, one section per file."""
