// Records that the host writes and kernels read, and what differs between the two compilers.
// The same text is compiled by NVRTC for a GPU, and by g++ for tests and machines without one.
#ifdef __CUDACC__
#define BODY static __device__ __forceinline__
#define OUTLINED static __device__ __noinline__
#else
#include <math.h>
#define BODY static inline
#define OUTLINED static
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef short i16;
typedef int i32;
typedef long long i64;

enum { GOOD = 0, BAD_CODE = 7, CUT_SHORT = 8, LEFT_OVER = 9, BAD_NUMBER = 14 };  // dali_pipes/jpeg/status.py

enum { LOOK_BITS = 10, ANY_REST = 255, MAX_BLOCKS = 10, TILE_ROWS = 8 };
enum { UPLOADED = 0, FRESH = 1, KEPT = 2 };  // where the bytes of an image are; see records.py
enum { ALONG_ROWS = 1, ALONG_COLUMNS = 2 };

// Huffman tables of a scan: two for DC in front, two for AC behind them.
struct Tables {
  u16 look[4][1 << LOOK_BITS];  // of the next bits: symbol << 8 | length of its code; 0 where that is longer
  i32 bound[4][17];             // of each length: the next 16 bits of its codes and shorter ones stay below
  i32 offset[4][17];            // and what added to such a code gives the place of its symbol
  u8 symbols[4][256];
  u8 zigzag[64];                // where each coefficient lies in its block
};

// MCUs whose codes stand by themselves in the data.
struct Interval {
  u32 begin, end;  // bytes of the image's data, half open
  u32 image;
  u32 mcu;         // the first one
  u32 count;
  u8 skip;         // bits of the first byte that belong to the MCUs before
  u8 rest;         // bits of the last byte that are left over; ANY_REST for up to seven
  i16 level[3];    // DC values of the MCU before
  i16 after[3];    // and of the last one, as they must be unless `rest` is ANY_REST
  i16 unused;
};

// Intervals of equal tables, decoded by one block of threads.
struct Group { u32 first, count, tables, unused; };

// The pixels of a component, of the MCUs that the crop needs.
struct Plane {
  u64 pixels;                          // bytes from the start of the workspace
  u32 row_bytes;
  u32 first_block;                     // of the component in an MCU
  u32 across, down;                    // blocks of the component in an MCU
  u32 left_block, top_block;           // of the MCUs that are kept: block column and row of the first one
  u32 first_column, last_column, first_row, last_row;  // blocks that are needed, the last ones included
  u32 grow_across, grow_down, fancy;   // from the component's pixels to the image's
  u32 width, height, unused;           // of the component
  i16 steps[64];                       // of quantisation, row by row
};

struct Image {
  u64 part;                                        // where its pixels go, RGBX: bytes from the start of the workspace
  u64 bytes;                                       // its file's first byte: KEPT: an address; FRESH: from the end of the fresh bytes
  u32 coefficients;                                // its first block among all
  u32 mcus_across;
  u32 first_mcu, mcu_columns, first_mcu_row, mcu_rows;  // those that are kept
  u32 num_blocks, num_planes;
  u8 blocks[16];                                   // of each block of an MCU: component | DC table << 2 | AC table << 3
  u32 top, left, rows, columns;                    // the needed part, as stored
  i32 first_pixel, row_step, pixel_step;           // where it goes in the upright part, in pixels
  u32 place;
  Plane planes[3];
};

// One side of a part that is resized: pixels first to last (half open) of `size` are seen.
struct Side {
  u64 weights;             // i32 starts, then i32 counts, then u16 weights [pixels, taps]: bytes from the start of the workspace
  u32 length, size, first, last;
  u32 taps, bits_at;       // weights of a pixel at most; where among all bits its own are
};

struct View {
  u64 canvas;              // address of the first pixel, RGB
  u64 source;              // the crop's first pixel, RGBX: bytes from the start of the workspace
  u32 source_row;          // pixels from row to row
  u32 antialias;
  u32 height, width;       // of the canvas
  i32 top, left;           // where the first seen pixel comes to lie
  Side sides[2];           // down, across
};

// What one launch of a kernel works on; addresses.
struct Job {
  u8* workspace;
  const u8* data;          // of all images that are UPLOADED
  const u8* fresh;         // behind the bytes of all that are FRESH
  const Interval* intervals;
  const Group* groups;
  const Tables* tables;
  const Image* images;
  const View* views;
  i16* coefficients;
  u8* depths;              // of each block: its last coefficient that is not zero
  i32* statuses;           // of each image
  i32* bits;               // of each side of each view: binary digits of its weights
  u32 num_groups, num_images, num_views, unused;
};

// What an image's intervals count from.
BODY const u8* data_of(const Job& job, const Image& image) {
  if (image.place == UPLOADED) return job.data;
  return (const u8*)(image.bytes + (image.place == FRESH ? (u64)job.fresh : 0));
}

BODY void note(i32* statuses, u32 image, i32 status) {
#ifdef __CUDACC__
  if (status != GOOD) atomicMax(&statuses[image], status);
#else
  i32 known = __atomic_load_n(&statuses[image], __ATOMIC_RELAXED);
  while (known < status &&
         !__atomic_compare_exchange_n(&statuses[image], &known, status, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
#endif
}
