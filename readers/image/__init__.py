"""What the first bytes of an encoded image say: size, orientation, restart intervals; and raw pixels as files."""
