// The kernels: which thread does what. Everything that matters is in the functions they call.

enum { THREADS = 128 };  // of a block, at most

BODY void write_side(const Job& job, u32 number) {
  __shared__ u64 largest;
  const View& view = job.views[number / 2];
  const Side& side = view.sides[number % 2];
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  double mine = 0.0;
  for (u32 pixel = threadIdx.x; pixel < side.size; pixel += blockDim.x) mine = fmax(mine, largest_weight(side, pixel, view.antialias));
  atomicMax(&largest, (u64)__double_as_longlong(mine));  // numbers that are not negative are in the order of their bits
  __syncthreads();
  i32 bits = bits_of(__longlong_as_double((i64)largest));
  if (threadIdx.x == 0) job.bits[side.bits_at] = bits;
  for (u32 pixel = side.first + threadIdx.x; pixel < side.last; pixel += blockDim.x) write_weights(job, side, pixel, bits, view.antialias);
}

// All that needs nothing but the upload: one block of threads for each group of intervals, then one for each side of each view.
extern "C" __global__ void __launch_bounds__(THREADS) read_codes(const Job job) {
  __shared__ __align__(16) Tables tables;
  if (blockIdx.x >= job.num_groups) {
    write_side(job, blockIdx.x - job.num_groups);
    return;
  }
  Group group = job.groups[blockIdx.x];
  const uint4* source = (const uint4*)(job.tables + group.tables);
  for (u32 at = threadIdx.x; at < sizeof(Tables) / 16; at += blockDim.x) ((uint4*)&tables)[at] = source[at];
  __syncthreads();
  if (threadIdx.x >= group.count) return;
  Interval interval = job.intervals[group.first + threadIdx.x];
  const Image& image = job.images[interval.image];
  i32 status = decode_interval(interval, image, tables, data_of(job, image), job.coefficients, job.depths);
  note(job.statuses, interval.image, status);
}

extern "C" __global__ void __launch_bounds__(THREADS) invert(const Job job) {
  const Image& image = job.images[blockIdx.y];
  u32 step = gridDim.x * blockDim.x, mcus = image.mcu_columns * image.mcu_rows;
  for (u32 number = 0; number < image.num_planes; number++) {
    const Plane& plane = image.planes[number];
    u32 count = mcus * plane.across * plane.down;
    for (u32 index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += step)
      note(job.statuses, blockIdx.y, invert_block(job, image, plane, index));
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) color(const Job job) {
  const Image& image = job.images[blockIdx.y];
  u32 count = image.rows * image.columns;
  for (u32 index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += gridDim.x * blockDim.x) write_pixel(job, image, index);
}

extern "C" __global__ void __launch_bounds__(THREADS) resize(const Job job) {
  const View& view = job.views[blockIdx.y];
  u32 count = (view.height + TILE_ROWS - 1) / TILE_ROWS * view.width;
  for (u32 index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += gridDim.x * blockDim.x)
    write_column(job, view, index / view.width, index % view.width);
}
