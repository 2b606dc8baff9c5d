// torch's bilinear resize of 8-bit images, antialiased, as gpu_aug/resampling/weights.py and bilinear.py have it: weights in float64,
// rounded to 16 bits with as many digits as the largest weight of the side allows; rounded to uint8 after each pass.
// No product may be fused with a sum: compile with --fmad=false, and for a CPU with -ffp-contract=off.

enum { MOST_BITS = 22 };

struct Taps { i32 start, stop; };

BODY i32 least(i32 one, i32 other) { return one < other ? one : other; }
BODY i32 most(i32 one, i32 other) { return one > other ? one : other; }

BODY double centre_of(const Side& side, u32 pixel) { return ((double)side.length / side.size) * (pixel + 0.5); }

BODY Taps taps_of(const Side& side, double centre, bool antialias) {
  double scale = (double)side.length / side.size;
  if (antialias) {
    double support = scale > 1.0 ? scale : 1.0;
    return {most((i32)(centre - support + 0.5), 0), least((i32)(centre + support + 0.5), side.length)};
  }
  i32 left = least((i32)floor(centre - 0.5), side.length - 1);
  return {most(left, 0), least(left + 2, side.length)};
}

BODY double share_of(i32 pixel, double centre, double inverse) {
  double distance = fabs((pixel - centre + 0.5) * inverse);
  return distance < 1.0 ? 1.0 - distance : 0.0;
}

// The sum of a pixel's weights, before they are divided by it, and the largest one, after that.
struct Weighing { double total, inverse, largest; };

BODY Weighing weigh(const Side& side, double centre, Taps taps) {
  double scale = (double)side.length / side.size;
  Weighing found = {0.0, scale >= 1.0 ? 1.0 / scale : 1.0, 0.0};
  for (i32 pixel = taps.start; pixel < taps.stop; pixel++) {
    double share = share_of(pixel, centre, found.inverse);
    found.total += share;
    if (share > found.largest) found.largest = share;
  }
  if (found.total != 0.0) found.largest /= found.total;
  return found;
}

struct Two { double near, far; bool single; };

BODY Two two_weights(const Side& side, double centre) {
  i32 left = least((i32)floor(centre - 0.5), side.length - 1);
  double share = centre - 0.5 - left;
  share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
  double near = 1.0 - share, far = 1.0 - (1.0 - share);
  if (left < 0 || left >= (i32)side.length - 1) return {near + far, 0.0, true};
  return {near, far, false};
}

// The largest weight of a pixel of the resized side.
BODY double largest_weight(const Side& side, u32 pixel, bool antialias) {
  double centre = centre_of(side, pixel);
  if (antialias) return weigh(side, centre, taps_of(side, centre, true)).largest;
  Two two = two_weights(side, centre);
  return two.near > two.far ? two.near : two.far;
}

// Binary digits that leave the largest weight of a side in 16 bits with a sign.
BODY i32 bits_of(double largest) {
  for (i32 bits = 0; bits < MOST_BITS; bits++)
    if ((i64)(0.5 + largest * (1 << (bits + 1))) >= 1 << 15) return bits;
  return MOST_BITS;
}

BODY u16 rounded(double weight, i32 bits) { return (u16)(i32)(0.5 + weight * (1 << bits)); }

// Write the weights of one seen pixel.
BODY void write_weights(const Job& job, const Side& side, u32 pixel, i32 bits, bool antialias) {
  u32 num_pixels = side.last - side.first, place = pixel - side.first;
  i32* starts = (i32*)(job.workspace + side.weights);
  u16* weights = (u16*)(starts + 2 * num_pixels) + (u64)place * side.taps;
  double centre = centre_of(side, pixel);
  Taps taps = taps_of(side, centre, antialias);
  starts[place] = taps.start;
  starts[num_pixels + place] = taps.stop - taps.start;
  if (!antialias) {
    Two two = two_weights(side, centre);
    weights[0] = rounded(two.near, bits);
    if (!two.single) weights[1] = rounded(two.far, bits);
    return;
  }
  Weighing found = weigh(side, centre, taps);
  for (i32 at = taps.start; at < taps.stop; at++) {
    double share = share_of(at, centre, found.inverse);
    weights[at - taps.start] = rounded(found.total != 0.0 ? share / found.total : share, bits);
  }
}

// Weights of a side as the second pass finds them.
struct Weights { const i32* starts; const i32* counts; const u16* weights; u32 taps; i32 bits; };

BODY Weights weights_of(const Job& job, const Side& side) {
  const i32* starts = (const i32*)(job.workspace + side.weights);
  u32 num_pixels = side.last - side.first;
  return {starts, starts + num_pixels, (const u16*)(starts + 2 * num_pixels), side.taps, job.bits[side.bits_at]};
}

BODY u32 shifted(u32 sum, i32 bits) {
  u32 number = sum >> bits;
  return number < 255 ? number : 255;
}

struct Sums { u32 red, green, blue; };

// Resize one row of the source at a column of the canvas.
BODY Sums across_row(const u32* row, const Weights& across, u32 place) {
  const u32* pixels = row + across.starts[place];
  const u16* weights = across.weights + (u64)place * across.taps;
  u32 half = 1u << (across.bits - 1);
  Sums sums = {half, half, half};
  for (i32 tap = 0; tap < across.counts[place]; tap++) {
    u32 pixel = pixels[tap], weight = weights[tap];
    sums.red += (pixel & 255) * weight;
    sums.green += (pixel >> 8 & 255) * weight;
    sums.blue += (pixel >> 16 & 255) * weight;
  }
  return {shifted(sums.red, across.bits), shifted(sums.green, across.bits), shifted(sums.blue, across.bits)};
}

// Write TILE_ROWS pixels below each other on a canvas, black where the image is not.
BODY void write_column(const Job& job, const View& view, u32 tile, u32 column) {
  u8* canvas = (u8*)view.canvas;
  i32 y = (i32)(tile * TILE_ROWS), x = (i32)column - view.left;
  i32 num_rows = (i32)(view.sides[0].last - view.sides[0].first), num_columns = (i32)(view.sides[1].last - view.sides[1].first);
  bool seen = x >= 0 && x < num_columns;
  Weights down = weights_of(job, view.sides[0]), across = weights_of(job, view.sides[1]);
  u32 half = seen ? 1u << (down.bits - 1) : 0;
  i32 from = 0, to = 0;  // rows of the source
  i32 starts[TILE_ROWS], counts[TILE_ROWS];
  Sums sums[TILE_ROWS];
#pragma unroll
  for (i32 line = 0; line < TILE_ROWS; line++) {
    i32 row = y + line - view.top;
    sums[line] = {half, half, half};
    starts[line] = counts[line] = 0;
    if (!seen || row < 0 || row >= num_rows || (u32)(y + line) >= view.height) continue;
    starts[line] = down.starts[row];
    counts[line] = down.counts[row];
    if (to == 0) from = starts[line];
    to = starts[line] + counts[line];
  }
  const u32* source = (const u32*)(job.workspace + view.source);
  for (i32 row = from; row < to; row++) {
    Sums found = across_row(source + (u64)row * view.source_row, across, x);
#pragma unroll
    for (i32 line = 0; line < TILE_ROWS; line++) {
      u32 tap = (u32)(row - starts[line]);
      if (tap >= (u32)counts[line]) continue;
      u32 weight = down.weights[(u64)(y + line - view.top) * down.taps + tap];
      sums[line].red += found.red * weight;
      sums[line].green += found.green * weight;
      sums[line].blue += found.blue * weight;
    }
  }
#pragma unroll
  for (i32 line = 0; line < TILE_ROWS; line++) {
    if ((u32)(y + line) >= view.height) continue;
    u8* pixel = canvas + ((u64)(y + line) * view.width + column) * 3;
    bool black = counts[line] == 0;
    pixel[0] = black ? 0 : (u8)shifted(sums[line].red, down.bits);
    pixel[1] = black ? 0 : (u8)shifted(sums[line].green, down.bits);
    pixel[2] = black ? 0 : (u8)shifted(sums[line].blue, down.bits);
  }
}
