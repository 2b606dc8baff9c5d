"""DOTA: pictures with text files of oriented boxes."""
