// libjpeg's exact inverse transform ("islow") as dali_pipes/jpeg/idct.py has it: fixed-point numbers of 13 bits, sums of 16-bit
// numbers that wrap. Loeffler, Ligtenberg and Moschytz, ICASSP 1989.

enum { FRACTION = 13, GUARD = 2 };

BODY i32 times(i32 one, i32 other) { return (i32)((u32)one * (u32)other); }
BODY i32 plus(i32 one, i32 other) { return (i32)((u32)one + (u32)other); }
BODY i32 minus(i32 one, i32 other) { return (i32)((u32)one - (u32)other); }
BODY i32 up(i32 one, u32 bits) { return (i32)((u32)one << bits); }
BODY i32 wrapped(i32 one) { return (i32)(i16)(u16)(u32)one; }
BODY i32 limited(i32 one, i32 low, i32 high) { return one < low ? low : one > high ? high : one; }

// Transform eight numbers of 16 bits in place, scaled down by 2**shift.
BODY void invert_line(i32& r0, i32& r1, i32& r2, i32& r3, i32& r4, i32& r5, i32& r6, i32& r7, i32 shift, i32 low, i32 high) {
  i32 twist = times(plus(r2, r6), 4433);
  i32 lower = minus(twist, times(r6, 15137)), higher = plus(twist, times(r2, 6270));
  i32 rounding = 1 << (shift - 1);
  i32 total = plus(up(wrapped(plus(r0, r4)), FRACTION), rounding);
  i32 difference = plus(up(wrapped(minus(r0, r4)), FRACTION), rounding);
  i32 e0 = plus(total, higher), e1 = plus(difference, lower), e2 = minus(difference, lower), e3 = minus(total, higher);
  i32 sum_73 = wrapped(plus(r7, r3)), sum_51 = wrapped(plus(r5, r1));
  i32 common = times(plus(sum_73, sum_51), 9633);
  sum_73 = minus(common, times(sum_73, 16069));
  sum_51 = minus(common, times(sum_51, 3196));
  i32 sum_71 = times(plus(r7, r1), 7373), sum_53 = times(plus(r5, r3), 20995);
  i32 o0 = plus(minus(times(r1, 12299), sum_71), sum_51);
  i32 o1 = plus(minus(times(r3, 25172), sum_53), sum_73);
  i32 o2 = plus(minus(times(r5, 16819), sum_53), sum_51);
  i32 o3 = plus(minus(times(r7, 2446), sum_71), sum_73);
  r0 = limited(plus(e0, o0) >> shift, low, high);
  r1 = limited(plus(e1, o1) >> shift, low, high);
  r2 = limited(plus(e2, o2) >> shift, low, high);
  r3 = limited(plus(e3, o3) >> shift, low, high);
  r4 = limited(minus(e3, o3) >> shift, low, high);
  r5 = limited(minus(e2, o2) >> shift, low, high);
  r6 = limited(minus(e1, o1) >> shift, low, high);
  r7 = limited(minus(e0, o0) >> shift, low, high);
}

union Eight { u64 word[2]; i16 item[8]; };

// Transform the block of a component's pixels that is number `index` of those that are kept; returns a status.
BODY i32 invert_block(const Job& job, const Image& image, const Plane& plane, u32 index) {
  u32 width = image.mcu_columns * plane.across;
  u32 x = index % width, y = index / width;
  u32 column = x + plane.left_block, row = y + plane.top_block;
  if (column < plane.first_column || column > plane.last_column || row < plane.first_row || row > plane.last_row) return GOOD;
  u32 mcu = (y / plane.down) * image.mcu_columns + x / plane.across;
  u32 block = image.coefficients + mcu * image.num_blocks + plane.first_block;
  block += (y % plane.down) * plane.across + x % plane.across;
  u8* out = job.workspace + plane.pixels + (u64)y * 8 * plane.row_bytes + (u64)x * 8;
  const i16* source = job.coefficients + (u64)block * 64;
  if (job.depths[block] == 0) {
    i32 level = wrapped(times(source[0], plane.steps[0]));
    level = limited(plus(wrapped(up(level, GUARD)), 16) >> 5, -128, 127) + 128;
    u64 eight = (u64)level * 0x0101010101010101ull;
    for (u32 line = 0; line < 8; line++) *(u64*)(out + (u64)line * plane.row_bytes) = eight;
    return GOOD;
  }
  i32 at[8][8];
  i32 overflow = 0;
#pragma unroll
  for (u32 line = 0; line < 8; line++) {
    Eight numbers, steps;
    for (u32 half = 0; half < 2; half++) {
      numbers.word[half] = ((const u64*)(source + line * 8))[half];
      steps.word[half] = ((const u64*)(plane.steps + line * 8))[half];
    }
#pragma unroll
    for (u32 item = 0; item < 8; item++) {
      at[line][item] = wrapped(times(numbers.item[item], steps.item[item]));
      if (line == 0) overflow |= at[0][item] ^ (wrapped(up(at[0][item], GUARD)) >> GUARD);
    }
  }
#pragma unroll
  for (u32 i = 0; i < 8; i++)
    invert_line(at[0][i], at[1][i], at[2][i], at[3][i], at[4][i], at[5][i], at[6][i], at[7][i], FRACTION - GUARD, -32768, 32767);
#pragma unroll
  for (u32 line = 0; line < 8; line++) {
    i32* r = at[line];
    invert_line(r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], FRACTION + GUARD + 3, -128, 127);
    u64 eight = 0;
#pragma unroll
    for (u32 item = 0; item < 8; item++) eight |= (u64)(u32)(r[item] + 128) << (8 * item);
    *(u64*)(out + (u64)line * plane.row_bytes) = eight;
  }
  return overflow ? BAD_NUMBER : GOOD;
}
