// From Huffman codes to coefficients: one interval after the other, none of which needs another.

struct Window {
  u64 ahead;    // the next bit is the highest one; behind the last one lie zeros
  i32 num;      // how many are read ahead; negative once more were taken than there are
  u32 at, end;  // bytes of the data that are not read yet
  bool marker;  // whether one came in between
};

BODY u32 load_word(const u8* data, u32 at) {
  u32 word = *(const u32*)(data + at);
#ifdef __CUDACC__
  return __byte_perm(word, 0, 0x0123);
#else
  return __builtin_bswap32(word);
#endif
}

// Have more than 32 bits read ahead, as far as there are any; zeros stuffed behind 0xFF are left out.
BODY void refill(Window& window, const u8* data) {
  while (window.num <= 32 && window.at < window.end) {
    if ((window.at & 3) == 0 && window.at + 4 <= window.end) {
      u32 word = load_word(data, window.at);
      if (!((~word - 0x01010101u) & word & 0x80808080u)) {  // no 0xFF
        window.ahead |= (u64)word << (32 - window.num);
        window.num += 32;
        window.at += 4;
        return;
      }
    }
    do {
      u32 byte = data[window.at];
      if (byte == 0xFF && window.at + 1 < window.end) {
        if (data[window.at + 1] != 0) {
          window.marker = true;
          window.end = window.at;
          return;
        }
        window.at++;
      }
      window.at++;
      window.ahead |= (u64)byte << (56 - window.num);
      window.num += 8;
    } while ((window.at & 3) && window.at < window.end && window.num <= 56);
  }
}

BODY void drop(Window& window, u32 num) {
  window.ahead <<= num;
  window.num -= num;
}

// The length of a code that the first table does not know | its symbol << 8; 0 where no table has it.
OUTLINED u32 long_code(u32 ahead, const i32* bound, const i32* offset, const u8* symbols) {
  for (u32 length = LOOK_BITS + 1; length <= 16; length++)
    if ((i32)ahead < bound[length])
      return length | (u32)symbols[((ahead >> (16 - length)) + offset[length]) & 255] << 8;
  return 0;
}

// The number of `size` bits at the front, 1 to 15, in JPEG's way of writing negative ones.
BODY i32 number(u64 ahead, u32 size) {
  i32 raw = (i32)(ahead >> (64 - size));
  return raw >> (size - 1) ? raw : raw - (1 << size) + 1;
}

// Where the blocks of one MCU after the other go; nowhere for MCUs that no pixel of the crop needs.
struct Cursor {
  u32 column, row;
  bool kept;
  u32 block;
};

BODY void aim(Cursor& cursor, const Image& image) {
  u32 x = cursor.column - image.first_mcu, y = cursor.row - image.first_mcu_row;
  cursor.kept = x < image.mcu_columns && y < image.mcu_rows;
  cursor.block = image.coefficients + (y * image.mcu_columns + x) * image.num_blocks;
}

// Decode an interval; one symbol in each turn, so that threads of one warp stay together whatever their blocks are like.
BODY i32 decode_interval(const Interval& interval, const Image& image, const Tables& tables, const u8* data,
                         i16* coefficients, u8* depths) {
  Window window = {0, 0, interval.begin, interval.end, false};
  refill(window, data);
  drop(window, interval.skip);
  Cursor cursor = {interval.mcu % image.mcus_across, interval.mcu / image.mcus_across, false, 0};
  aim(cursor, image);
  u32 level_0 = (u32)(i32)interval.level[0], level_1 = (u32)(i32)interval.level[1], level_2 = (u32)(i32)interval.level[2];
  u32 wide = 0;  // not zero once a DC value is beyond the 14 bits that the inverse transform allows
  u32 left = interval.count, block = 0, at = 0, kind = image.blocks[0], depth = 63;
  i16* out = coefficients + (u64)cursor.block * 64;
  while (left) {
    refill(window, data);
    u32 table = at ? 2 + (kind >> 3) : (kind >> 2 & 1);
    u32 found = tables.look[table][window.ahead >> (64 - LOOK_BITS)];
    u32 length = found & 255, symbol = found >> 8;
    if (length == 0) {
      found = long_code((u32)(window.ahead >> 48), tables.bound[table], tables.offset[table], tables.symbols[table]);
      length = found & 255, symbol = found >> 8;
      if (length == 0) return BAD_CODE;
    }
    drop(window, length);
    u32 size = symbol & 15, run = symbol >> 4;
    i32 value = 0;
    if (size) {
      value = number(window.ahead, size);
      drop(window, size);
    }
    if (at == 0) {
      u32 component = kind & 3;
      u32 level = (component == 0 ? level_0 : component == 1 ? level_1 : level_2) + (u32)value;
      if (component == 0) level_0 = level;
      else if (component == 1) level_1 = level;
      else level_2 = level;
      wide |= ((level + 8192) | (level * (u32)image.planes[component].steps[0] + 8192)) & ~16383u;
      if (cursor.kept) out[0] = (i16)level;
      at = 1;
    } else if (size) {
      at += run;
      if (at > 63) return BAD_CODE;
      if (cursor.kept) out[tables.zigzag[at]] = (i16)value;
      at++;
    } else if (run == 15) {
      at += 16;
      if (at > 64) return BAD_CODE;
    } else {
      depth = at - 1;
      at = 64;
    }
    if (at < 64) continue;
    if (window.num < 0) return CUT_SHORT;
    if (cursor.kept) depths[cursor.block + block] = (u8)depth;
    at = 0, depth = 63, out += 64;
    if (++block == image.num_blocks) {
      block = 0, left--;
      if (++cursor.column == image.mcus_across) cursor.column = 0, cursor.row++;
      aim(cursor, image);
      out = coefficients + (u64)cursor.block * 64;
    }
    kind = image.blocks[block];
  }
  refill(window, data);
  if (window.num < 0) return CUT_SHORT;
  bool spent = window.num < 8 && !window.marker;
  if (interval.rest != ANY_REST)
    spent = spent && window.num == interval.rest && (i16)level_0 == interval.after[0] && (i16)level_1 == interval.after[1] &&
            (i16)level_2 == interval.after[2];
  return !spent ? LEFT_OVER : wide ? BAD_NUMBER : GOOD;
}
