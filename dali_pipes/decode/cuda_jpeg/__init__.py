"""A decoder of baseline JPEGs on a GPU: what the CPU decodes, resizes and turns, bit for bit, from intervals of Huffman codes."""
