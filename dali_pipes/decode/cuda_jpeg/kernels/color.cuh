// From planes of components to RGB, upright: libjpeg's "fancy" interpolation of smaller components (3/4 of the nearer pixel and 1/4
// of the further one), and YCbCr to RGB, as dali_pipes/jpeg/color.py and pixels.py have them.

BODY u32 nearer(u32 at, u32 limit, bool forward) {
  if (forward) return at + 1 < limit ? at + 1 : at;
  return at > 0 ? at - 1 : 0;
}

// Divide by a factor of sampling, 1 to 4: shifts take a tenth of the instructions of a division, and 3 is rare.
BODY u32 shrunk(u32 at, u32 factor) { return factor == 3 ? at / 3 : at >> (factor >> 1); }

// The number of a component at a pixel of the stored image.
BODY i32 component_at(const Job& job, const Plane& plane, u32 row, u32 column) {
  u32 x = shrunk(column, plane.grow_across), y = shrunk(row, plane.grow_down);
  u32 left = plane.left_block * 8, top = plane.top_block * 8;
  const u8* pixels = job.workspace + plane.pixels;
  const u8* near = pixels + (u64)(y - top) * plane.row_bytes;
  i32 here = near[x - left];
  if (plane.fancy == 0) return here;
  bool right = column & 1, lower = row & 1;
  u32 beside_x = nearer(x, plane.width, right) - left;
  if (plane.fancy == ALONG_ROWS) return (here * 3 + near[beside_x] + (right ? 2 : 1)) >> 2;
  const u8* far = pixels + (u64)(nearer(y, plane.height, lower) - top) * plane.row_bytes;
  if (plane.fancy == ALONG_COLUMNS) return (here * 3 + far[x - left] + (lower ? 2 : 1)) >> 2;
  here = here * 3 + far[x - left];
  i32 beside = near[beside_x] * 3 + far[beside_x];
  return (here * 3 + beside + (right ? 7 : 8)) >> 4;
}

BODY i32 scaled(i32 colour, i32 factor) { return (((colour * 2 * factor) >> 16) + 1) >> 1; }

// RGBX of a pixel of the needed part, as stored.
BODY u32 color_at(const Job& job, const Image& image, u32 row, u32 column) {
  row += image.top, column += image.left;
  i32 y = component_at(job, image.planes[0], row, column);
  if (image.num_planes == 1) return (u32)y * 0x010101u;
  i32 cb = component_at(job, image.planes[1], row, column) - 128;
  i32 cr = component_at(job, image.planes[2], row, column) - 128;
  i32 red = scaled(cr, 26345) + cr;
  i32 blue = scaled(cb, -14942) + cb + cb;
  i32 green = ((cb * -22554 + cr * 18734 + 32768) >> 16) - cr;
  u32 r = limited(y + red, 0, 255), g = limited(y + green, 0, 255), b = limited(y + blue, 0, 255);
  return r | g << 8 | b << 16;
}

// Write one pixel of the needed part, number `index` as it is stored.
BODY void write_pixel(const Job& job, const Image& image, u32 index) {
  u32 row = index / image.columns, column = index % image.columns;
  u32* part = (u32*)(job.workspace + image.part);
  i32 at = image.first_pixel + (i32)row * image.row_step + (i32)column * image.pixel_step;
  part[at] = color_at(job, image, row, column);
}
