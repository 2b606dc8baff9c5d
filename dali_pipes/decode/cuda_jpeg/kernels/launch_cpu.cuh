// The same work as the kernels', as functions that a CPU calls; units from first to last (half open), in the order of the GPU's or not.

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT u32 record_bytes(u32 number) {
  const u32 sizes[] = {sizeof(Tables), sizeof(Interval), sizeof(Group), sizeof(Plane), sizeof(Image), sizeof(Side), sizeof(View), sizeof(Job)};
  return sizes[number];
}

EXPORT void read_codes(const Job* job, u32 first, u32 last) {
  for (u32 unit = first; unit < last; unit++) {
    if (unit < job->num_groups) {
      Group group = job->groups[unit];
      for (u32 number = group.first; number < group.first + group.count; number++) {
        const Interval& interval = job->intervals[number];
        const Image& image = job->images[interval.image];
        i32 status = decode_interval(interval, image, job->tables[group.tables], data_of(*job, image), job->coefficients, job->depths);
        note(job->statuses, interval.image, status);
      }
      continue;
    }
    u32 number = unit - job->num_groups;
    const View& view = job->views[number / 2];
    const Side& side = view.sides[number % 2];
    double largest = 0.0;
    for (u32 pixel = 0; pixel < side.size; pixel++) {
      double weight = largest_weight(side, pixel, view.antialias);
      if (weight > largest) largest = weight;
    }
    i32 bits = job->bits[side.bits_at] = bits_of(largest);
    for (u32 pixel = side.first; pixel < side.last; pixel++) write_weights(*job, side, pixel, bits, view.antialias);
  }
}

EXPORT void invert(const Job* job, u32 first, u32 last) {
  for (u32 unit = first; unit < last; unit++) {
    const Image& image = job->images[unit];
    for (u32 number = 0; number < image.num_planes; number++) {
      const Plane& plane = image.planes[number];
      u32 count = image.mcu_columns * image.mcu_rows * plane.across * plane.down;
      for (u32 index = 0; index < count; index++) note(job->statuses, unit, invert_block(*job, image, plane, index));
    }
  }
}

EXPORT void color(const Job* job, u32 first, u32 last) {
  for (u32 unit = first; unit < last; unit++) {
    const Image& image = job->images[unit];
    for (u32 index = 0; index < image.rows * image.columns; index++) write_pixel(*job, image, index);
  }
}

EXPORT void resize(const Job* job, u32 first, u32 last) {
  for (u32 unit = first; unit < last; unit++) {
    const View& view = job->views[unit];
    u32 count = (view.height + TILE_ROWS - 1) / TILE_ROWS * view.width;
    for (u32 index = 0; index < count; index++) write_column(*job, view, index / view.width, index % view.width);
  }
}
