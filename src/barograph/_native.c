/* The statistics of tensors in one pass over their memory. `measures/native.py` says what each call does;
 * `measures/plain.py` is the same written the plain way, and the tests hold the two together.
 *
 * How it goes. A tensor is taken in blocks that fit the nearest cache. Elements that float32 holds exactly (floats
 * of at most 32 bits, integers of at most 16, bools) are brought into float32, all others into float64. A block of
 * float32 is summed in float32, at most BLOCK / LANES = 64 elements a lane, and the lanes are added in float64: so a
 * sum is off by at most (64 + 2) * 2**-24 < 2**-17 of the sum of magnitudes. The pass knows nothing of NaN: where the
 * block's sum of squares is not finite (something in it is not, or a square overflowed), or so small that squares
 * may have underflowed, that block alone is done again in float64, with care.
 *
 * The loops themselves are in `_native_lanes.h`, compiled for several widths; the best one for the processor is
 * chosen when the module is loaded. All give the same bits. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(_M_X64)
#include <intrin.h>
#elif defined(__GNUC__) && defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "_native_threads.h"

/* Compilers without vectors get loops over single elements. So does everybody with BAROGRAPH_NO_VECTORS, to test them. */
#if defined(__GNUC__) && !defined(BAROGRAPH_NO_VECTORS)
#if defined(__x86_64__)
#define X86_VECTORS 1
#elif defined(__aarch64__)
#define NEON_VECTORS 1
#endif
#endif

enum {
    STREAMS = 4,        /* places of a tensor that are read at once */
    LINE_BYTES = 64,    /* of memory that comes together */
    AHEAD_BYTES = 1280, /* so far before it is summed memory is asked for; with half or twice that it comes later */
    BLOCK = 2048,       /* elements done at a time: 8 KB of float32 */
    LANES = 32,         /* running sums in float32 */
    D_LANES = 8,        /* running sums in float64 */
    STRIP = 16,         /* columns of a matrix summed side by side: one cache line of float32 */
    STRIP_ROWS = 64,    /* rows that a column is summed over in float32 */
    TILE = 512,         /* columns brought into float32 at a time */
    TABLES = 4,         /* neighbours are counted in different tables: a bin just written is slow to read back */
    BINS = 512,         /* EXPONENT_BINS */
    WINDOW = 32,        /* neighbouring exponents counted at a time: nearly all of a tensor lies in so few */
    PLANES = 12,        /* of a count in binary, by lanes: enough for 4095 vectors */
    MAX_WIDTH = 16,     /* float32 in the widest vector */
    WINDOW_FROM = 8192, /* elements for which reading the planes is worth while */
    WINDOW_MOVES = 8,   /* after which a tensor is taken to have no such window */
    MOMENTS = 10,       /* len(MOMENT_FIELDS) */
    UNITS = 7,          /* len(UNIT_FIELDS) */
    SAMPLED_FROM = 4096 /* measures.sampling.SAMPLED_FROM */
};

/* Elements of a tensor that one thread sums by itself: a whole number of blocks, for which no counter of 32 bits can
 * overflow. Two such parts fit the second cache, so that what is read again for a difference is still there. Sums of
 * parts are added in order, whoever has made them, so the number of threads changes no bit. */
static const uint64_t PART = (uint64_t)1 << 16;

/* Memory from which several threads read it: below, to wake them takes longer than they save. */
static const double SHARED_BYTES = 4 << 20;

/* Memory from which other Python threads may run meanwhile: below, handing over costs more than it gives. */
static const double RELEASE_BYTES = 1 << 20;

/* If some |x| >= 2**-59, the sum of squares is at least 2**-118, beside which what underflow can take from it
 * (2**-150 an element) is nothing. */
static const double TINY_SQUARE = 0x1p-118;

enum {
    F32, F64, F16, BF16, E4M3, E5M2, I8, U8, I16, U16, I32, U32, I64, U64, BOOL, C64, C128,
    DTYPES
}; /* measures.elements.DTYPE_CODES */

static const uint8_t SIZES[DTYPES] = {4, 8, 2, 2, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8, 16};
static const uint8_t NARROW[DTYPES] = {1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0};

typedef struct {
    double sum[D_LANES], sum_sq[D_LANES], sum_abs[D_LANES];
} Sums;

typedef struct {
    float low[MAX_WIDTH], high[MAX_WIDTH]; /* as many of them are used as a vector has */
    int32_t zeros[MAX_WIDTH];
} Extremes;

typedef struct {
    Sums sums;
    double low[D_LANES], high[D_LANES];
    int64_t zeros[D_LANES];
} Block64;

typedef struct {
    float sum[STRIP], sum_sq[STRIP], low[STRIP], high[STRIP];
    int32_t zeros[STRIP], beyond[STRIP];
} Strip;

typedef struct {
    void (*moments_f32)(const float *, size_t, const Extremes *, Extremes *, Sums *);
    void (*moments_f64)(const double *, size_t, Block64 *);
    void (*strip)(const float *, size_t, size_t, float, Strip *);
    size_t (*count_beyond)(const float *, size_t, float);
    void (*count_denormals)(const float *, size_t, int32_t[2]);
    uint32_t (*largest_field)(const float *, size_t);
    size_t (*count_outside)(const float *, size_t, uint32_t);
    int window_width; /* float32 in a vector; 0 where there is no counting in windows */
    int (*count_window)(const float *, size_t, uint32_t, uint32_t *);
    void (*read_planes)(const uint32_t *, uint32_t[2][WINDOW]);
    void (*subtract)(const float *, const float *, size_t, float *);
    void (*from_bfloat16)(const char *, size_t, float *);
    void (*from_float16)(const char *, size_t, float *);
    int (*finite_f32)(const float *, size_t);
    int (*finite_f64)(const double *, size_t);
    int (*finite_streams)(const float *, size_t, size_t);
} Loops;

static inline int64_t bits_of_f64(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#if X86_VECTORS

#define WIDTH 64
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#define LOOPS(name) name##_avx512
#define MIN_F32(a, b) ((VF)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define MAX_F32(a, b) ((VF)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define MIN_F64(a, b) ((VD)_mm512_min_pd((__m512d)(a), (__m512d)(b)))
#define MAX_F64(a, b) ((VD)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#define ONE_BIT(v) ((VU)_mm512_sllv_epi32(_mm512_set1_epi32(1), (__m512i)(v)))
#define MAX_U32(a, b) ((VU)_mm512_max_epu32((__m512i)(a), (__m512i)(b)))
#define XOR3(a, b, c) ((VU)_mm512_ternarylogic_epi32((__m512i)(a), (__m512i)(b), (__m512i)(c), 0x96))
#define MAJORITY(a, b, c) ((VU)_mm512_ternarylogic_epi32((__m512i)(a), (__m512i)(b), (__m512i)(c), 0xe8))
#define WIDEN_F16(from, to) _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from))))
#include "_native_lanes.h"

#define WIDTH 32
#define TARGET __attribute__((target("avx2,f16c")))
#define LOOPS(name) name##_avx2
#define MIN_F32(a, b) ((VF)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define MAX_F32(a, b) ((VF)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define MIN_F64(a, b) ((VD)_mm256_min_pd((__m256d)(a), (__m256d)(b)))
#define MAX_F64(a, b) ((VD)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#define ONE_BIT(v) ((VU)_mm256_sllv_epi32(_mm256_set1_epi32(1), (__m256i)(v)))
#define MAX_U32(a, b) ((VU)_mm256_max_epu32((__m256i)(a), (__m256i)(b)))
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define MAJORITY(a, b, c) (((a) & (b)) | (((a) ^ (b)) & (c)))
#define WIDEN_F16(from, to) _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from))))
#include "_native_lanes.h"

#define WIDTH 16
#define TARGET
#define LOOPS(name) name##_baseline
#define MIN_F32(a, b) ((VF)_mm_min_ps((__m128)(a), (__m128)(b)))
#define MAX_F32(a, b) ((VF)_mm_max_ps((__m128)(a), (__m128)(b)))
#define MIN_F64(a, b) ((VD)_mm_min_pd((__m128d)(a), (__m128d)(b)))
#define MAX_F64(a, b) ((VD)_mm_max_pd((__m128d)(a), (__m128d)(b)))
#include "_native_lanes.h"

#elif NEON_VECTORS

#define WIDTH 16
#define TARGET
#define LOOPS(name) name##_baseline
#define MIN_F32(a, b) ((VF)vminq_f32((float32x4_t)(a), (float32x4_t)(b)))
#define MAX_F32(a, b) ((VF)vmaxq_f32((float32x4_t)(a), (float32x4_t)(b)))
#define MIN_F64(a, b) ((VD)vminq_f64((float64x2_t)(a), (float64x2_t)(b)))
#define MAX_F64(a, b) ((VD)vmaxq_f64((float64x2_t)(a), (float64x2_t)(b)))
#include "_native_lanes.h"

#else

static inline int32_t bits_of_f32(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float f32_of_bits(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline double f64_of_bits(int64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define WIDTH 4
#define TARGET
#define LOOPS(name) name##_baseline
#define MIN_F32(a, b) ((a) < (b) ? (a) : (b))
#define MAX_F32(a, b) ((a) > (b) ? (a) : (b))
#define MIN_F64(a, b) ((a) < (b) ? (a) : (b))
#define MAX_F64(a, b) ((a) > (b) ? (a) : (b))
#include "_native_lanes.h"

#endif

typedef struct {
    const char *name;
    const Loops *loops;
    int supported, preferred;
} Level;

static Level levels[] = {
#if X86_VECTORS
    {"avx512", &loops_avx512, 0, 0},
    {"avx2", &loops_avx2, 0, 0},
#endif
    {"baseline", &loops_baseline, 1, 1},
};

enum { LEVELS = sizeof levels / sizeof levels[0] };

static const Level *level = &levels[LEVELS - 1];

static void choose_level(void)
{
#if X86_VECTORS
    unsigned int a, b, c = 0, d;
    int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C); /* which __builtin_cpu_supports may not know */
    __builtin_cpu_init();
    levels[0].supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    /* Processors before VBMI2 slow their clock for a while after wide arithmetic, and training would pay. */
    levels[0].preferred = levels[0].supported && __builtin_cpu_supports("avx512vbmi2");
    levels[1].supported = levels[1].preferred = __builtin_cpu_supports("avx2") && f16c;
#endif
    for (level = levels; !level->preferred; level++)
        continue;
}

/* ---- The floating-point environment of the thread we are a guest in -------------------------------------------- */

/* Training may have denormals flushed to zero; we must see them. No trap is taken, and no sticky flag left behind. */
#if defined(__x86_64__) || defined(_M_X64)
typedef unsigned int FloatState;
static FloatState enter_float_state(void)
{
    FloatState before = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return before;
}
static void leave_float_state(FloatState before) { _mm_setcsr(before); }
#elif defined(__GNUC__) && defined(__aarch64__)
typedef uint64_t FloatState;
static FloatState enter_float_state(void)
{
    FloatState before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return before;
}
static void leave_float_state(FloatState before) { __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory"); }
#else
typedef int FloatState;
static FloatState enter_float_state(void) { return 0; }
static void leave_float_state(FloatState before) { (void)before; }
#endif

/* ---- Elements into float32 or float64 -------------------------------------------------------------------------- */

static float e4m3_values[256], e5m2_values[256];

static float decode_float8(int byte, int mantissa_bits, int bias, int has_inf)
{
    int mantissa = byte & ((1 << mantissa_bits) - 1), field = (byte & 0x7f) >> mantissa_bits;
    int top = 0x7f >> mantissa_bits;
    double value;
    if (field == top && has_inf)
        value = mantissa ? NAN : HUGE_VAL;
    else if (!has_inf && (byte & 0x7f) == 0x7f)
        value = NAN;
    else if (field == 0)
        value = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        value = ldexp(mantissa + (1 << mantissa_bits), field - bias - mantissa_bits);
    return (float)(byte & 0x80 ? -value : value);
}

static void fill_float8_tables(void)
{
    for (int byte = 0; byte < 256; byte++) {
        e4m3_values[byte] = decode_float8(byte, 3, 7, 0);
        e5m2_values[byte] = decode_float8(byte, 2, 15, 1);
    }
}

#define EACH(type, expression)                                                                                        \
    for (size_t i = 0; i < n; i++) {                                                                                  \
        type e;                                                                                                       \
        memcpy(&e, data + i * sizeof e, sizeof e);                                                                    \
        out[i] = expression;                                                                                          \
    }                                                                                                                 \
    break

/* Elements start, start + 1, … of a type that float32 holds; in place where they are float32 already. */
static const float *narrow(const char *data, int dtype, uint64_t start, size_t n, float *out)
{
    data += start * SIZES[dtype];
    switch (dtype) {
    case F32:
        if ((uintptr_t)data % sizeof(float) == 0)
            return (const float *)(const void *)data;
        memcpy(out, data, n * sizeof *out);
        break;
    case F16: level->loops->from_float16(data, n, out); break;
    case BF16: level->loops->from_bfloat16(data, n, out); break;
    case E4M3: EACH(uint8_t, e4m3_values[e]);
    case E5M2: EACH(uint8_t, e5m2_values[e]);
    case I8: EACH(int8_t, (float)e);
    case U8: EACH(uint8_t, (float)e);
    case I16: EACH(int16_t, (float)e);
    case U16: EACH(uint16_t, (float)e);
    case BOOL: EACH(uint8_t, e ? 1.0f : 0.0f);
    }
    return out;
}

/* The same of any other type; of complex numbers the magnitude. With `minus`, of data − minus. */
static void wide(const char *data, const char *minus, int dtype, uint64_t start, size_t n, double *out)
{
    data += start * SIZES[dtype];
    switch (dtype) {
    case F64: memcpy(out, data, n * sizeof *out); break;
    case I32: EACH(int32_t, (double)e);
    case U32: EACH(uint32_t, (double)e);
    case I64: EACH(int64_t, (double)e);
    case U64: EACH(uint64_t, (double)e);
    case C64:
        for (size_t i = 0; i < n; i++) {
            float e[2], f[2] = {0, 0};
            memcpy(e, data + i * sizeof e, sizeof e);
            if (minus)
                memcpy(f, minus + (start + i) * sizeof f, sizeof f);
            float re = e[0] - f[0], im = e[1] - f[1];
            /* Squares of float32 neither overflow nor lose digits in float64. */
            double square = (double)re * re + (double)im * im;
            out[i] = isinf(re) || isinf(im) ? HUGE_VAL : sqrt(square);
        }
        return;
    case C128:
        for (size_t i = 0; i < n; i++) {
            double e[2], f[2] = {0, 0};
            memcpy(e, data + i * sizeof e, sizeof e);
            if (minus)
                memcpy(f, minus + (start + i) * sizeof f, sizeof f);
            out[i] = hypot(e[0] - f[0], e[1] - f[1]);
        }
        return;
    }
    if (minus) {
        double before[BLOCK];
        wide(minus, NULL, dtype, start, n, before);
        for (size_t i = 0; i < n; i++)
            out[i] -= before[i];
    }
}

/* ---- The histogram --------------------------------------------------------------------------------------------- */

/* Bins 255 and 511 of the tables hold what is not finite, and are not used. Nor are bins 0 and 256, which hold zeros
 * as well as denormals: denormals are counted apart, in the blocks that have any.
 *
 * Where a window is used, it counts most of the elements, without tables, and the tables the few outside it. */
typedef struct {
    uint32_t tables[TABLES][BINS];
    uint64_t denormals[2];
    int wide;            /* counted from float64: bins 0 and 256 are used, and hold no zeros */
    int sampled;
    int windowed;        /* a window is used */
    uint32_t base;       /* exponent field at which it begins; 0 before the first block */
    int moves, vectors;  /* times it was moved; vectors in the planes */
    uint32_t planes[2 * PLANES * MAX_WIDTH];
} Bins;

static void clear_bins(Bins *bins, int wide, int sampled, uint64_t numel)
{
    memset(bins, 0, sizeof *bins);
    bins->wide = wide;
    bins->sampled = sampled;
    bins->windowed = !wide && !sampled && numel >= WINDOW_FROM && level->loops->window_width;
}

static inline uint32_t word(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits;
}

/* Every eighth element is sampled, beginning in each run of 64 at a place drawn anew. See measures/sampling.py. */
static inline uint32_t place(uint64_t index)
{
    uint32_t h = (uint32_t)(index / 64 + 1) * 0x85ebca6bu;
    return (h ^ h >> 15) * 0xc2b2ae35u >> 29;
}

static void count_exact(const float *x, size_t n, Bins *bins)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t pair[4];
        memcpy(pair, x + i, sizeof pair);
        for (int p = 0; p < 4; p++) { /* which of a pair comes first does not matter */
            bins->tables[p % 2][pair[p] >> 23 & 511]++;
            bins->tables[2 + p % 2][pair[p] >> 55]++;
        }
    }
    for (; i < n; i++)
        bins->tables[0][word(x + i) >> 23]++;
}

static void count_sampled(const float *x, size_t n, uint64_t start, Bins *bins)
{
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        const float *first = x + i + place(start + i);
        for (int k = 0; k < 8; k++)
            bins->tables[k % TABLES][word(first + 8 * k) >> 23]++;
    }
    for (size_t at = i + place(start + i); at < n; at += 8)
        bins->tables[0][word(x + at) >> 23]++;
}

static int is_denormal(uint32_t bits) { return (bits & 0x7fffffffu) - 1u < 0x7fffffu; }

static void count_sampled_denormals(const float *x, size_t n, uint64_t start, uint64_t denormals[2])
{
    for (size_t i = 0; i < n; i += 64)
        for (size_t at = i + place(start + i); at < n && at < i + 64; at += 8)
            if (is_denormal(word(x + at)))
                denormals[word(x + at) >> 31]++;
}

static uint64_t zeros_and_denormals(const Bins *bins)
{
    uint64_t count = 0;
    for (int t = 0; t < TABLES; t++)
        count += (uint64_t)bins->tables[t][0] + bins->tables[t][256];
    return count;
}

static void count_in_tables(const float *x, size_t n, uint64_t start, Bins *bins)
{
    uint64_t before = zeros_and_denormals(bins);
    if (bins->sampled)
        count_sampled(x, n, start, bins);
    else
        count_exact(x, n, bins);
    if (zeros_and_denormals(bins) == before)
        return;
    int32_t denormals[2];
    level->loops->count_denormals(x, n, denormals);
    if (denormals[0] + denormals[1] == 0)
        return;
    if (bins->sampled) {
        count_sampled_denormals(x, n, start, bins->denormals);
    } else {
        bins->denormals[0] += (uint64_t)denormals[0];
        bins->denormals[1] += (uint64_t)denormals[1];
    }
}

static void empty_planes(Bins *bins)
{
    uint32_t counts[2][WINDOW];
    if (!bins->vectors)
        return;
    level->loops->read_planes(bins->planes, counts);
    for (uint32_t e = 0; e < WINDOW; e++) {
        bins->tables[0][bins->base + e] += counts[0][e] - counts[1][e];
        bins->tables[0][256 + bins->base + e] += counts[1][e];
    }
    memset(bins->planes, 0, sizeof bins->planes);
    bins->vectors = 0;
}

/* Sets the window on the exponents of these elements: a little room above, most below. */
static void move_window(const float *x, size_t n, Bins *bins)
{
    uint32_t largest = level->loops->largest_field(x, n);
    empty_planes(bins);
    bins->base = largest < WINDOW - 4 ? 1 : largest - (WINDOW - 5);
    bins->base = bins->base > 255 - WINDOW ? 255 - WINDOW : bins->base;
}

static void count_outside(const float *x, size_t n, Bins *bins)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = word(x + i);
        if ((bits >> 23 & 255) - bins->base < WINDOW || !(bits & 0x7fffffffu))
            continue;
        if (is_denormal(bits))
            bins->denormals[bits >> 31]++;
        else
            bins->tables[0][bits >> 23]++;
    }
}

/* A whole number of groups. */
static void count_in_window(const float *x, size_t n, Bins *bins)
{
    int vectors = (int)n / level->loops->window_width;
    if (!bins->base)
        move_window(x, n, bins);
    if (bins->vectors + vectors >= 1 << PLANES)
        empty_planes(bins);
    bins->vectors += vectors;
    if (!level->loops->count_window(x, n, bins->base, bins->planes))
        return;
    size_t outside = level->loops->count_outside(x, n, bins->base);
    if (outside)
        count_outside(x, n, bins);
    if (outside > n / 64) {
        move_window(x, n, bins);
        bins->windowed = ++bins->moves < WINDOW_MOVES;
    }
}

static void count_f32(const float *x, size_t n, uint64_t start, Bins *bins)
{
    size_t whole = bins->windowed ? n - n % (16 * (size_t)level->loops->window_width) : 0;
    if (whole)
        count_in_window(x, whole, bins);
    if (whole < n)
        count_in_tables(x + whole, n - whole, start + whole, bins);
}

static void count_one_f64(double x, Bins *bins)
{
    uint64_t bits = (uint64_t)bits_of_f64(x);
    int64_t field = (int64_t)(bits >> 52 & 0x7ff) - (1023 - 127); /* that of float32 */
    field = field < 0 ? 0 : field > 254 ? 254 : field;
    int counts = (fabs(x) <= DBL_MAX) & (x != 0.0);
    bins->tables[0][counts ? (bits >> 63) * 256 + (uint64_t)field : 255]++;
}

static void count_f64(const double *x, size_t n, uint64_t start, Bins *bins)
{
    if (!bins->sampled) {
        for (size_t i = 0; i < n; i++)
            count_one_f64(x[i], bins);
        return;
    }
    for (size_t i = 0; i < n; i += 64)
        for (size_t at = i + place(start + i); at < n && at < i + 64; at += 8)
            count_one_f64(x[at], bins);
}

static void flush_bins(Bins *bins, int64_t *row)
{
    empty_planes(bins);
    for (int bin = 0; bin < BINS; bin++) {
        int64_t count = 0;
        for (int t = 0; t < TABLES; t++)
            count += bins->tables[t][bin];
        /* Several threads may count into one row. */
        if (count && (bin & 255) != 255 && ((bin & 255) != 0 || bins->wide))
            ADD_TO(&row[bin], count);
    }
    for (int sign = 0; sign < 2; sign++)
        if (bins->denormals[sign])
            ADD_TO(&row[256 * sign], (int64_t)bins->denormals[sign]);
}

/* ---- Moments --------------------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t count, nan, posinf, neginf, zeros;
    double min, max, sum, sum_sq, sum_abs;
} Tally;

static double add_up(const double *lanes)
{
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static void add_block64(const Block64 *block, Tally *tally)
{
    for (int l = 0; l < D_LANES; l++) {
        tally->min = block->low[l] < tally->min ? block->low[l] : tally->min;
        tally->max = block->high[l] > tally->max ? block->high[l] : tally->max;
        tally->zeros += (uint64_t)block->zeros[l];
    }
    tally->sum += add_up(block->sums.sum);
    tally->sum_sq += add_up(block->sums.sum_sq);
    tally->sum_abs += add_up(block->sums.sum_abs);
}

/* Counts what is not finite, and moves the rest together. Returns how many those are. */
static size_t keep_finite(const double *x, size_t n, double *kept, Tally *tally)
{
    size_t count = 0, nan = 0, posinf = 0, neginf = 0;
    for (size_t i = 0; i < n; i++) { /* without a branch, which would be hard to foresee */
        kept[count] = x[i];
        count += fabs(x[i]) <= DBL_MAX;
        nan += x[i] != x[i];
        posinf += x[i] > DBL_MAX;
        neginf += x[i] < -DBL_MAX;
    }
    tally->nan += nan;
    tally->posinf += posinf;
    tally->neginf += neginf;
    return count;
}

static void add_f64(const double *x, size_t n, Tally *tally)
{
    Block64 block;
    level->loops->moments_f64(x, n, &block);
    if (!(add_up(block.sums.sum_abs) <= DBL_MAX)) {
        double kept[BLOCK];
        size_t count = keep_finite(x, n, kept, tally);
        level->loops->moments_f64(kept, count, &block);
    }
    add_block64(&block, tally);
}

static void add_f32_with_care(const float *x, size_t n, Tally *tally)
{
    double exact[BLOCK];
    for (size_t i = 0; i < n; i++)
        exact[i] = x[i];
    add_f64(exact, n, tally);
}

static void clear_extremes(Extremes *extremes)
{
    for (int l = 0; l < MAX_WIDTH; l++) {
        extremes->low[l] = HUGE_VALF;
        extremes->high[l] = -HUGE_VALF;
        extremes->zeros[l] = 0;
    }
}

static void add_extremes(const Extremes *extremes, Tally *tally)
{
    for (int l = 0; l < MAX_WIDTH; l++) {
        tally->min = extremes->low[l] < tally->min ? extremes->low[l] : tally->min;
        tally->max = extremes->high[l] > tally->max ? extremes->high[l] : tally->max;
        tally->zeros += (uint64_t)extremes->zeros[l];
    }
}

/* What is summarised: the elements at `data`, or data − minus; `advance` is where to copy `data` to, or NULL. */
typedef struct {
    const char *data, *minus;
    char *advance;
    int dtype;
} Source;

static const float *fetch(const Source *source, uint64_t start, size_t n, float *out, float *other)
{
    const float *x = narrow(source->data, source->dtype, start, n, out);
    if (source->minus) {
        const float *before = narrow(source->minus, source->dtype, start, n, other);
        level->loops->subtract(x, before, n, out);
        x = out;
    }
    return x;
}

static void advance(const Source *source, uint64_t start, size_t n)
{
    size_t size = SIZES[source->dtype];
    if (source->advance)
        memcpy(source->advance + start * size, source->data + start * size, n * size);
}

static void add_narrow(const Source *source, uint64_t start, uint64_t end, Tally *tally, Bins *bins)
{
    Extremes extremes[2];
    Sums block, total;
    float out[BLOCK], other[BLOCK];
    int now = 0;

    clear_extremes(&extremes[0]);
    clear_extremes(&extremes[1]);
    memset(&total, 0, sizeof total);
    for (; start < end; start += BLOCK) {
        size_t n = end - start < BLOCK ? (size_t)(end - start) : BLOCK;
        const float *x = fetch(source, start, n, out, other);
        level->loops->moments_f32(x, n, &extremes[now], &extremes[!now], &block);
        double square = add_up(block.sum_sq);
        if (square <= DBL_MAX && (square >= TINY_SQUARE || add_up(block.sum_abs) == 0.0)) {
            now = !now;
            for (int l = 0; l < D_LANES; l++) {
                total.sum[l] += block.sum[l];
                total.sum_sq[l] += block.sum_sq[l];
                total.sum_abs[l] += block.sum_abs[l];
            }
        } else {
            add_f32_with_care(x, n, tally);
        }
        if (bins)
            count_f32(x, n, start, bins);
        advance(source, start, n);
    }
    add_extremes(&extremes[now], tally);
    tally->sum += add_up(total.sum);
    tally->sum_sq += add_up(total.sum_sq);
    tally->sum_abs += add_up(total.sum_abs);
}

static void add_wide(const Source *source, uint64_t start, uint64_t end, Tally *tally, Bins *bins)
{
    double x[BLOCK];
    for (; start < end; start += BLOCK) {
        size_t n = end - start < BLOCK ? (size_t)(end - start) : BLOCK;
        wide(source->data, source->minus, source->dtype, start, n, x);
        add_f64(x, n, tally);
        if (bins)
            count_f64(x, n, start, bins);
        advance(source, start, n);
    }
}

static void join(const Tally *part, Tally *whole)
{
    whole->count += part->count;
    whole->nan += part->nan;
    whole->posinf += part->posinf;
    whole->neginf += part->neginf;
    whole->zeros += part->zeros;
    whole->min = part->min < whole->min ? part->min : whole->min;
    whole->max = part->max > whole->max ? part->max : whole->max;
    whole->sum += part->sum;
    whole->sum_sq += part->sum_sq;
    whole->sum_abs += part->sum_abs;
}

static void merge(const Tally *tally, double *row)
{
    row[0] += (double)tally->count;
    row[1] += (double)tally->nan;
    row[2] += (double)tally->posinf;
    row[3] += (double)tally->neginf;
    row[4] += (double)tally->zeros;
    row[5] = tally->min < row[5] ? tally->min : row[5];
    row[6] = tally->max > row[6] ? tally->max : row[6];
    row[7] += tally->sum;
    row[8] += tally->sum_sq;
    row[9] += tally->sum_abs;
}

static const Tally NOTHING = {0, 0, 0, 0, 0, HUGE_VAL, -HUGE_VAL, 0.0, 0.0, 0.0};

static uint64_t parts_of(uint64_t numel) { return numel / PART + (numel % PART != 0); }

/* Sums one part of a tensor, and counts its bins into a row. */
static void sum_part(const Source *source, uint64_t numel, uint64_t part, int mode, Tally *tally, int64_t *exponents)
{
    uint64_t start = part * PART, end = numel - start < PART ? numel : start + PART;
    Bins bins;
    *tally = NOTHING;
    tally->count = end - start;
    if (mode)
        clear_bins(&bins, !NARROW[source->dtype], mode == 1 && numel >= SAMPLED_FROM, end - start);
    if (NARROW[source->dtype])
        add_narrow(source, start, end, tally, mode ? &bins : NULL);
    else
        add_wide(source, start, end, tally, mode ? &bins : NULL);
    if (mode)
        flush_bins(&bins, exponents);
}

/* ---- Many tensors ---------------------------------------------------------------------------------------------- */

/* Whether every element is finite, of a complex number both parts; whole numbers always are. */
static int are_finite(const char *data, uint64_t numel, int dtype)
{
    float out[BLOCK];
    double wide_out[BLOCK];
    if (dtype == C64 || dtype == C128) {
        dtype = dtype == C64 ? F32 : F64;
        numel *= 2;
    }
    if (dtype > E5M2)
        return 1;
    uint64_t done = 0;
    if (dtype == F32 && (uintptr_t)data % sizeof(float) == 0) {
        const float *x = (const float *)data;
        uint64_t apart = numel / STREAMS / BLOCK * BLOCK;
        for (; done < apart; done += BLOCK)
            if (!level->loops->finite_streams(x + done, BLOCK, apart))
                return 0;
        done = apart * STREAMS;
    }
    for (uint64_t start = done; start < numel; start += BLOCK) {
        size_t n = numel - start < BLOCK ? (size_t)(numel - start) : BLOCK;
        if (dtype == F64)
            wide(data, NULL, dtype, start, n, wide_out);
        if (dtype == F64 ? !level->loops->finite_f64(wide_out, n)
                         : !level->loops->finite_f32(narrow(data, dtype, start, n, out), n))
            return 0;
    }
    return 1;
}

/* A row, and the histogram that is counted there; a row of −1: nothing is asked. */
typedef struct {
    int64_t row, mode;
} Place;

enum { ITSELF, DIFFERENCE, PLACES };

/* One tensor: where its statistics go, and those of how it differs from `source.minus`. */
typedef struct {
    Source source;
    int64_t numel;
    Place places[PLACES];
} Task;

/* Work on tensors part by part, for as many threads as help. */
typedef struct Sharing Sharing;
struct Sharing {
    void (*take)(Sharing *sharing, const Task *task, uint64_t part, size_t number);
    const Task *tasks;
    size_t count;
    size_t *first; /* by tensor, the number of its first part among all; after the last, how many there are */
    size_t next;
    Tally *tallies; /* PLACES for each part */
    int64_t *exponents;
    int finite;
};

static void take_parts(void *context)
{
    Sharing *sharing = context;
    FloatState state = enter_float_state();
    size_t task = 0, number;
    while ((number = NEXT(sharing->next)) < sharing->first[sharing->count]) {
        while (sharing->first[task + 1] <= number)
            task++;
        sharing->take(sharing, &sharing->tasks[task], number - sharing->first[task], number);
    }
    leave_float_state(state);
}

/* Returns whether there is memory to share the work; what was taken is given back by `end_sharing`. */
static int begin_sharing(Sharing *sharing)
{
    size_t *first = sharing->first = malloc((sharing->count + 1) * sizeof *first);
    if (!first)
        return 0;
    first[0] = 0;
    for (size_t t = 0; t < sharing->count; t++)
        first[t + 1] = first[t] + (size_t)parts_of((uint64_t)sharing->tasks[t].numel);
    return 1;
}

static void end_sharing(Sharing *sharing)
{
    free(sharing->tallies);
    free(sharing->first);
}

/* The second cache still has what was read for the one when it is read for the other. */
static void read_part(const Task *task, uint64_t part, Tally *tallies, int64_t *exponents)
{
    for (int i = 0; i < PLACES; i++) {
        const Place *place = &task->places[i];
        Source source = task->source;
        if (i == ITSELF)
            source.minus = source.advance = NULL;
        if (place->row >= 0)
            sum_part(&source, (uint64_t)task->numel, part, (int)place->mode, &tallies[i],
                     place->mode ? exponents + place->row * BINS : NULL);
    }
}

static void take_sums(Sharing *sharing, const Task *task, uint64_t part, size_t number)
{
    read_part(task, part, sharing->tallies + PLACES * number, sharing->exponents);
}

static void join_part(const Task *task, const Tally *part, Tally *wholes)
{
    for (int i = 0; i < PLACES; i++)
        if (task->places[i].row >= 0)
            join(&part[i], &wholes[i]);
}

static void merge_whole(const Task *task, const Tally *wholes, double *moments)
{
    for (int i = 0; i < PLACES; i++)
        if (task->places[i].row >= 0)
            merge(&wholes[i], moments + task->places[i].row * MOMENTS);
}

/* Returns whether there was memory to keep the sums of parts in; if not, nothing was read. */
static int read_shared(const Task *tasks, size_t count, double *moments, int64_t *exponents)
{
    Sharing sharing = {take_sums, tasks, count, NULL, 0, NULL, exponents, 1};
    if (begin_sharing(&sharing))
        sharing.tallies = malloc(PLACES * sharing.first[count] * sizeof(Tally));
    int has_room = sharing.tallies != NULL;
    if (has_room) {
        work_together(take_parts, &sharing);
        for (size_t t = 0; t < count; t++) {
            Tally wholes[PLACES] = {NOTHING, NOTHING};
            for (size_t number = sharing.first[t]; number < sharing.first[t + 1]; number++)
                join_part(&tasks[t], sharing.tallies + PLACES * number, wholes);
            merge_whole(&tasks[t], wholes, moments);
        }
    }
    end_sharing(&sharing);
    return has_room;
}

static void read_alone(const Task *tasks, size_t count, double *moments, int64_t *exponents)
{
    FloatState state = enter_float_state();
    for (size_t t = 0; t < count; t++) {
        Tally wholes[PLACES] = {NOTHING, NOTHING}, part[PLACES];
        for (uint64_t p = 0; p < parts_of((uint64_t)tasks[t].numel); p++) {
            read_part(&tasks[t], p, part, exponents);
            join_part(&tasks[t], part, wholes);
        }
        merge_whole(&tasks[t], wholes, moments);
    }
    leave_float_state(state);
}

static double size_of(const Task *task)
{
    return (double)task->numel * SIZES[task->source.dtype] * (task->source.minus ? 2 : 1);
}

static double size_of_all(const Task *tasks, size_t count)
{
    double size_bytes = 0;
    for (size_t t = 0; t < count; t++)
        size_bytes += size_of(&tasks[t]);
    return size_bytes;
}

static void read_all(const Task *tasks, size_t count, double *moments, int64_t *exponents)
{
    if (size_of_all(tasks, count) < SHARED_BYTES || !read_shared(tasks, count, moments, exponents))
        read_alone(tasks, count, moments, exponents);
}

static void take_finite(Sharing *sharing, const Task *task, uint64_t part, size_t number)
{
    (void)number;
    uint64_t start = part * PART, left = (uint64_t)task->numel - start;
    if (SEEN(sharing->finite) && !are_finite(task->source.data + start * SIZES[task->source.dtype],
                                             left < PART ? left : PART, task->source.dtype))
        SET(sharing->finite, 0);
}

static void take_copy(Sharing *sharing, const Task *task, uint64_t part, size_t number)
{
    (void)sharing;
    (void)number;
    uint64_t start = part * PART, left = (uint64_t)task->numel - start;
    advance(&task->source, start, (size_t)(left < PART ? left : PART));
}

/* Has every part of all tensors taken. Returns whether there was memory for that; if not, nothing was done. */
static int share(Sharing *sharing)
{
    int has_room = begin_sharing(sharing);
    if (has_room && size_of_all(sharing->tasks, sharing->count) < SHARED_BYTES)
        take_parts(sharing);
    else if (has_room)
        work_together(take_parts, sharing);
    end_sharing(sharing);
    return has_room;
}

/* ---- Units ----------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *data;
    uint64_t outer, units, inner;
    int dtype;
    double bound;
    float narrow_bound; /* the least float32 that is not below it, so that |x| >= either is the same */
    double *columns;
} Layers;

enum { ZEROS, BEYOND, NONFINITE, MIN, MAX, SUM, SUM_SQ };

static void add_to_unit(double x, double bound, double *unit)
{
    unit[ZEROS] += x == 0.0;
    unit[BEYOND] += fabs(x) >= bound;
    if (fabs(x) <= DBL_MAX) {
        unit[MIN] = x < unit[MIN] ? x : unit[MIN];
        unit[MAX] = x > unit[MAX] ? x : unit[MAX];
        unit[SUM] += x;
        unit[SUM_SQ] += x * x;
    } else {
        unit[NONFINITE] += 1;
    }
}

static void add_lane(const Strip *strip, int l, double *unit)
{
    unit[ZEROS] += strip->zeros[l];
    unit[BEYOND] += strip->beyond[l];
    unit[MIN] = strip->low[l] < unit[MIN] ? strip->low[l] : unit[MIN];
    unit[MAX] = strip->high[l] > unit[MAX] ? strip->high[l] : unit[MAX];
    unit[SUM] += strip->sum[l];
    unit[SUM_SQ] += strip->sum_sq[l];
}

/* Columns `column` to column + n of a few rows, where n <= STRIP and all STRIP columns can be read. */
static void add_strip(const Layers *layers, const float *x, size_t rows, size_t stride, uint64_t column, int n)
{
    Strip strip;
    level->loops->strip(x, rows, stride, layers->narrow_bound, &strip);
    double *unit = layers->columns + column / layers->inner * UNITS;
    uint64_t left = layers->inner - column % layers->inner; /* columns of this unit */
    for (int l = 0; l < n; l++) {
        double square = strip.sum_sq[l];
        int zero = strip.low[l] == 0.0f && strip.high[l] == 0.0f;
        if (square <= DBL_MAX && (square >= TINY_SQUARE || zero))
            add_lane(&strip, l, unit);
        else
            for (size_t row = 0; row < rows; row++)
                add_to_unit(x[row * stride + (size_t)l], layers->bound, unit);
        if (--left == 0) {
            left = layers->inner;
            unit += UNITS;
        }
    }
}

/* A few rows of a tile of columns. The last columns, fewer than a strip, are copied out first. */
static void add_tile(const Layers *layers, const float *x, size_t rows, size_t stride, uint64_t column, size_t n)
{
    size_t c = 0;
    for (; c + STRIP <= n; c += STRIP)
        add_strip(layers, x + c, rows, stride, column + c, STRIP);
    if (c < n) {
        float rest[STRIP_ROWS * STRIP] = {0};
        for (size_t row = 0; row < rows; row++)
            memcpy(rest + row * STRIP, x + row * stride + c, (n - c) * sizeof(float));
        add_strip(layers, rest, rows, STRIP, column + c, (int)(n - c));
    }
}

/* Seen as a matrix of `outer` rows: each column belongs to one unit. Returns whether there was memory enough. */
static int add_columns(const Layers *layers)
{
    uint64_t width = layers->units * layers->inner;
    int direct = layers->dtype == F32 && (uintptr_t)layers->data % sizeof(float) == 0;
    float *tile = direct ? NULL : malloc(STRIP_ROWS * TILE * sizeof(float));
    if (!direct && !tile)
        return 0;
    for (uint64_t first = 0; first < layers->outer; first += STRIP_ROWS) {
        size_t rows = layers->outer - first < STRIP_ROWS ? (size_t)(layers->outer - first) : STRIP_ROWS;
        for (uint64_t column = 0; column < width; column += TILE) {
            size_t n = width - column < TILE ? (size_t)(width - column) : TILE;
            if (direct) {
                const float *x = (const float *)(const void *)layers->data + first * width + column;
                add_tile(layers, x, rows, (size_t)width, column, n);
                continue;
            }
            for (size_t row = 0; row < rows; row++) {
                float *out = tile + row * TILE;
                const float *x = narrow(layers->data, layers->dtype, (first + row) * width + column, n, out);
                if (x != out)
                    memcpy(out, x, n * sizeof(float));
            }
            add_tile(layers, tile, rows, TILE, column, n);
        }
    }
    free(tile);
    return 1;
}

/* One block of a unit whose elements are neighbours. */
static void add_run(const Layers *layers, const float *x, size_t n, double *unit)
{
    Extremes none, extremes;
    Sums sums;
    Tally tally = {0, 0, 0, 0, 0, HUGE_VAL, -HUGE_VAL, 0.0, 0.0, 0.0};
    clear_extremes(&none);
    clear_extremes(&extremes);
    level->loops->moments_f32(x, n, &none, &extremes, &sums);
    double square = add_up(sums.sum_sq);
    if (!(square <= DBL_MAX && (square >= TINY_SQUARE || add_up(sums.sum_abs) == 0.0))) {
        for (size_t i = 0; i < n; i++)
            add_to_unit(x[i], layers->bound, unit);
        return;
    }
    add_extremes(&extremes, &tally);
    unit[ZEROS] += (double)tally.zeros;
    unit[BEYOND] += (double)level->loops->count_beyond(x, n, layers->narrow_bound);
    unit[MIN] = tally.min < unit[MIN] ? tally.min : unit[MIN];
    unit[MAX] = tally.max > unit[MAX] ? tally.max : unit[MAX];
    unit[SUM] += add_up(sums.sum);
    unit[SUM_SQ] += square;
}

static void add_runs(const Layers *layers)
{
    float out[BLOCK];
    for (uint64_t run = 0; run < layers->outer * layers->units; run++)
        for (uint64_t at = 0; at < layers->inner; at += BLOCK) {
            size_t n = layers->inner - at < BLOCK ? (size_t)(layers->inner - at) : BLOCK;
            const float *x = narrow(layers->data, layers->dtype, run * layers->inner + at, n, out);
            add_run(layers, x, n, layers->columns + run % layers->units * UNITS);
        }
}

static void add_wide_units(const Layers *layers)
{
    double x[BLOCK];
    uint64_t numel = layers->outer * layers->units * layers->inner, unit = 0, at = 0;
    for (uint64_t start = 0; start < numel; start += BLOCK) {
        size_t n = numel - start < BLOCK ? (size_t)(numel - start) : BLOCK;
        wide(layers->data, NULL, layers->dtype, start, n, x);
        for (size_t i = 0; i < n; i++) {
            add_to_unit(x[i], layers->bound, layers->columns + unit * UNITS);
            if (++at == layers->inner) {
                at = 0;
                unit = unit + 1 == layers->units ? 0 : unit + 1;
            }
        }
    }
}

enum { RUN_FROM = 512 }; /* neighbours of one unit from which adding them up by themselves is the faster way */

static int summarize_units(const Layers *layers)
{
    if (!NARROW[layers->dtype])
        add_wide_units(layers);
    else if (layers->inner >= RUN_FROM)
        add_runs(layers);
    else
        return add_columns(layers);
    return 1;
}

/* ---- Python ---------------------------------------------------------------------------------------------------- */

static int has_kind(const Py_buffer *view, const char *kinds)
{
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=')
        format++;
    return *format && format[1] == '\0' && strchr(kinds, *format) != NULL;
}

/* Takes the buffer of a matrix that we write into. */
static int take_rows(PyObject *object, const char *name, const char *kinds, int width, Py_buffer *view)
{
    if (PyObject_GetBuffer(object, view, PyBUF_WRITABLE | PyBUF_ND | PyBUF_FORMAT) == 0) {
        if (view->ndim == 2 && view->shape[1] == width && view->itemsize == 8 && has_kind(view, kinds))
            return 1;
        PyBuffer_Release(view);
    }
    PyErr_Format(PyExc_ValueError, "%s must be a writable C-contiguous %s array of shape (n, %d).", name,
                 *kinds == 'd' ? "float64" : "int64", width);
    return 0;
}

/* Takes the buffer of a list of numbers that we read. */
static int take_list(PyObject *object, const char *name, const char *kinds, int size, Py_buffer *view)
{
    if (PyObject_GetBuffer(object, view, PyBUF_ND | PyBUF_FORMAT) == 0) {
        if (view->ndim == 1 && view->itemsize == size && has_kind(view, kinds))
            return 1;
        PyBuffer_Release(view);
    }
    PyErr_Format(PyExc_ValueError, "%s must be a C-contiguous array of whole numbers, %d bytes each.", name, size);
    return 0;
}

static int take_arguments(const char *name, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given != wanted)
        PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, not %zd.", name, wanted, given);
    return given == wanted;
}

static int take_whole(PyObject *object, int64_t *value)
{
    *value = PyLong_AsLongLong(object);
    return !(*value == -1 && PyErr_Occurred());
}

static int take_address(PyObject *object, const char **pointer)
{
    PyObject *whole = PyNumber_Index(object);
    *pointer = whole ? PyLong_AsVoidPtr(whole) : NULL;
    Py_XDECREF(whole);
    return !(*pointer == NULL && PyErr_Occurred());
}

/* The two outputs of a call, as taken from its arguments. */
typedef struct {
    Py_buffer moments, exponents;
    int has_exponents;
} Outputs;

static int take_outputs(PyObject *moments, PyObject *exponents, Outputs *outputs)
{
    outputs->has_exponents = exponents != Py_None;
    if (!take_rows(moments, "moments", "d", MOMENTS, &outputs->moments))
        return 0;
    if (outputs->has_exponents && !take_rows(exponents, "exponents", "lq", BINS, &outputs->exponents)) {
        PyBuffer_Release(&outputs->moments);
        return 0;
    }
    return 1;
}

static void release_outputs(Outputs *outputs)
{
    PyBuffer_Release(&outputs->moments);
    if (outputs->has_exponents)
        PyBuffer_Release(&outputs->exponents);
}

static int check_elements(const char *pointer, int64_t numel, int64_t dtype)
{
    if (dtype < 0 || dtype >= DTYPES)
        PyErr_Format(PyExc_ValueError, "dtype is %lld; it must be one of the numbers in DTYPE_CODES, 0 to %d.",
                     (long long)dtype, DTYPES - 1);
    else if (numel < 0)
        PyErr_Format(PyExc_ValueError, "numel is %lld; it must be 0 or more.", (long long)numel);
    else if (numel > 0 && !pointer)
        PyErr_Format(PyExc_ValueError, "The address of %lld elements is 0.", (long long)numel);
    else
        return 1;
    return 0;
}

static int check_row(const Outputs *outputs, int64_t row, int64_t mode)
{
    if (row < 0 || row >= outputs->moments.shape[0])
        PyErr_Format(PyExc_ValueError, "row is %lld; moments has %zd rows.", (long long)row,
                     outputs->moments.shape[0]);
    else if (mode < 0 || mode > 2)
        PyErr_Format(PyExc_ValueError, "exponent mode is %lld; it must be 0 (none), 1 (sampled) or 2 (exact).",
                     (long long)mode);
    else if (mode && (!outputs->has_exponents || row >= outputs->exponents.shape[0]))
        PyErr_Format(PyExc_ValueError, "A histogram is asked for row %lld, and exponents has no such row.",
                     (long long)row);
    else
        return 1;
    return 0;
}

static PyThreadState *let_others_run(double size_bytes)
{
    return size_bytes >= RELEASE_BYTES ? PyEval_SaveThread() : NULL;
}

static void take_over(PyThreadState *state)
{
    if (state)
        PyEval_RestoreThread(state);
}

static void read_into(const Task *tasks, size_t count, Outputs *outputs)
{
    PyThreadState *state = let_others_run(size_of_all(tasks, count));
    read_all(tasks, count, outputs->moments.buf, outputs->has_exponents ? outputs->exponents.buf : NULL);
    take_over(state);
}

static PyObject *summarize_alone(const Source *source, int64_t numel, int64_t row, int64_t mode, Outputs *outputs)
{
    if (!check_row(outputs, row, mode)) {
        release_outputs(outputs);
        return NULL;
    }
    Task task = {*source, numel, {{-1, 0}, {-1, 0}}};
    task.places[source->minus ? DIFFERENCE : ITSELF] = (Place){row, mode};
    read_into(&task, 1, outputs);
    release_outputs(outputs);
    Py_RETURN_NONE;
}

static PyObject *py_summarize_into(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    int64_t numel, dtype, row, mode;
    Source source = {NULL, NULL, NULL, 0};
    Outputs outputs;
    (void)module;
    if (!take_arguments("summarize_into", given, 7) || !take_address(args[0], &source.data) ||
        !take_whole(args[1], &numel) || !take_whole(args[2], &dtype) || !take_whole(args[4], &row) ||
        !take_whole(args[6], &mode) || !check_elements(source.data, numel, dtype) ||
        !take_outputs(args[3], args[5], &outputs))
        return NULL;
    source.dtype = (int)dtype;
    return summarize_alone(&source, numel, row, mode, &outputs);
}

static PyObject *py_difference_into(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    int64_t numel, dtype, row, mode;
    Source source = {NULL, NULL, NULL, 0};
    Outputs outputs;
    (void)module;
    if (!take_arguments("difference_into", given, 9) || !take_address(args[0], &source.data) ||
        !take_address(args[1], &source.minus) || !take_whole(args[2], &numel) || !take_whole(args[3], &dtype) ||
        !take_whole(args[5], &row) || !take_whole(args[7], &mode) || !check_elements(source.data, numel, dtype) ||
        !check_elements(source.minus, numel, dtype))
        return NULL;
    int advances = PyObject_IsTrue(args[8]);
    if (advances < 0 || !take_outputs(args[4], args[6], &outputs))
        return NULL;
    source.dtype = (int)dtype;
    source.advance = advances ? (char *)source.minus : NULL;
    return summarize_alone(&source, numel, row, mode, &outputs);
}

/* Lists that a call was given, one entry for each tensor. */
enum { POINTERS, NUMELS, DTYPE_NUMBERS, MINUSES, ROWS, ROWS_OF_DIFFERENCES, LISTS };

static const char *const LIST_NAMES[LISTS] = {"pointers", "numels", "dtypes", "before", "rows", "update_rows"};

typedef struct {
    Py_buffer lists[LISTS], modes[PLACES];
    int64_t mode[PLACES]; /* of all; −1 where each has its own */
    int is_taken[LISTS];
    size_t count;
} Batch;

static void release_batch(Batch *batch)
{
    for (int i = 0; i < LISTS; i++)
        if (batch->is_taken[i])
            PyBuffer_Release(&batch->lists[i]);
    for (int i = 0; i < PLACES; i++)
        if (batch->mode[i] < 0)
            PyBuffer_Release(&batch->modes[i]);
}

static int take_tensors(PyObject *object, int list, Batch *batch)
{
    int is_narrow = list == DTYPE_NUMBERS;
    if (!take_list(object, LIST_NAMES[list], is_narrow ? "il" : "lq", is_narrow ? 4 : 8, &batch->lists[list]))
        return 0;
    batch->is_taken[list] = 1;
    size_t length = (size_t)batch->lists[list].shape[0];
    if (list == POINTERS)
        batch->count = length;
    if (length == batch->count)
        return 1;
    PyErr_Format(PyExc_ValueError, "pointers and %s must have one length.", LIST_NAMES[list]);
    return 0;
}

/* Takes the first arguments of a call as these lists, the addresses before all others. */
static int take_batch(PyObject *const *args, const int *lists, int count, Batch *batch)
{
    memset(batch, 0, sizeof *batch);
    for (int i = 0; i < count; i++)
        if (!take_tensors(args[i], lists[i], batch))
            return 0;
    return 1;
}

static int take_modes(PyObject *modes, int place, Batch *batch)
{
    if (PyLong_Check(modes)) {
        int64_t mode;
        if (!take_whole(modes, &mode))
            return 0;
        if (mode < 0 || mode > 2) {
            PyErr_Format(PyExc_ValueError, "exponent mode is %lld; it must be 0 (none), 1 (sampled) or 2 (exact).",
                         (long long)mode);
            return 0;
        }
        batch->mode[place] = mode;
        return 1;
    }
    if (!take_list(modes, "modes", "B", 1, &batch->modes[place]))
        return 0;
    batch->mode[place] = -1;
    if ((size_t)batch->modes[place].shape[0] == batch->count)
        return 1;
    PyErr_SetString(PyExc_ValueError, "modes must be one number, or one for each tensor.");
    return 0;
}

static int64_t entry(const Batch *batch, int list, size_t i)
{
    return batch->is_taken[list] ? ((const int64_t *)batch->lists[list].buf)[i] : -1;
}

static Place place_of(const Batch *batch, int place, size_t i)
{
    int64_t mode = batch->mode[place];
    Place found = {entry(batch, place == ITSELF ? ROWS : ROWS_OF_DIFFERENCES, i),
                   mode < 0 ? ((const uint8_t *)batch->modes[place].buf)[i] : mode};
    return found;
}

/* Returns the tensors of a batch, which are to be freed; NULL where one is none, or there is no memory. */
static Task *tasks_of(const Batch *batch)
{
    Task *tasks = PyMem_Malloc((batch->count ? batch->count : 1) * sizeof *tasks);
    if (!tasks)
        PyErr_NoMemory();
    for (size_t i = 0; tasks && i < batch->count; i++) {
        int64_t dtype = batch->is_taken[DTYPE_NUMBERS] ? ((const int32_t *)batch->lists[DTYPE_NUMBERS].buf)[i] : U8;
        Task task = {{(const char *)(uintptr_t)entry(batch, POINTERS, i), NULL, NULL, (int)dtype},
                     entry(batch, NUMELS, i),
                     {place_of(batch, ITSELF, i), place_of(batch, DIFFERENCE, i)}};
        int is_right = check_elements(task.source.data, task.numel, dtype);
        if (is_right && batch->is_taken[MINUSES]) {
            task.source.minus = (const char *)(uintptr_t)entry(batch, MINUSES, i);
            is_right = check_elements(task.source.minus, task.numel, dtype);
        }
        tasks[i] = task;
        if (!is_right) {
            PyMem_Free(tasks);
            tasks = NULL;
        }
    }
    return tasks;
}

/* A row of −1 is none, where differences are asked for: of what is then not asked, nothing is checked. */
static int check_places(const Task *tasks, size_t count, int may_lack, const Outputs *outputs)
{
    for (size_t i = 0; i < count; i++)
        for (int p = 0; p < PLACES; p++) {
            const Place *place = &tasks[i].places[p];
            int is_none = place->row == -1 && (may_lack || p == DIFFERENCE);
            if (!is_none && !check_row(outputs, place->row, place->mode))
                return 0;
        }
    return 1;
}

static PyObject *read_batch(const Batch *batch, PyObject *moments, PyObject *exponents)
{
    Outputs outputs;
    if (!take_outputs(moments, exponents, &outputs))
        return NULL;
    Task *tasks = tasks_of(batch);
    int is_right = tasks && check_places(tasks, batch->count, batch->is_taken[MINUSES], &outputs);
    if (is_right)
        read_into(tasks, batch->count, &outputs);
    PyMem_Free(tasks);
    release_outputs(&outputs);
    return is_right ? Py_NewRef(Py_None) : NULL;
}

static PyObject *py_summarize_many(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    static const int lists[] = {POINTERS, NUMELS, DTYPE_NUMBERS, ROWS};
    Batch batch;
    (void)module;
    if (!take_arguments("summarize_many", given, 7))
        return NULL;
    int is_right = take_batch(args, lists, 4, &batch) && take_modes(args[6], ITSELF, &batch);
    PyObject *done = is_right ? read_batch(&batch, args[4], args[5]) : NULL;
    release_batch(&batch);
    return done;
}

static PyObject *py_difference_many(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    static const int lists[] = {POINTERS, MINUSES, NUMELS, DTYPE_NUMBERS, ROWS, ROWS_OF_DIFFERENCES};
    Batch batch;
    (void)module;
    if (!take_arguments("difference_many", given, 10))
        return NULL;
    int is_right = take_batch(args, lists, 6, &batch) && take_modes(args[8], ITSELF, &batch) &&
                   take_modes(args[9], DIFFERENCE, &batch);
    PyObject *done = is_right ? read_batch(&batch, args[6], args[7]) : NULL;
    release_batch(&batch);
    return done;
}

/* Whether all tensors of a batch are finite; −1 where one of them is none. */
static int batch_is_finite(const Batch *batch)
{
    Task *tasks = tasks_of(batch);
    if (!tasks)
        return -1;
    Sharing sharing = {take_finite, tasks, batch->count, NULL, 0, NULL, NULL, 1};
    PyThreadState *thread = let_others_run(size_of_all(tasks, batch->count));
    int is_done = share(&sharing);
    take_over(thread);
    PyMem_Free(tasks);
    if (!is_done)
        PyErr_NoMemory();
    return is_done ? sharing.finite : -1;
}

static PyObject *py_all_finite(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    static const int lists[] = {POINTERS, NUMELS, DTYPE_NUMBERS};
    Batch batch;
    (void)module;
    if (!take_arguments("all_finite", given, 3))
        return NULL;
    int finite = take_batch(args, lists, 3, &batch) ? batch_is_finite(&batch) : -1;
    release_batch(&batch);
    return finite < 0 ? NULL : PyBool_FromLong(finite);
}

static int check_layers(int64_t outer, int64_t units, int64_t inner, const Layers *layers)
{
    if (outer < 0 || units < 0 || inner < 0) {
        PyErr_SetString(PyExc_ValueError, "outer, units and inner must be 0 or more.");
        return 0;
    }
    double numel = (double)outer * (double)units * (double)inner;
    if (numel > (double)PY_SSIZE_T_MAX / 16) {
        PyErr_SetString(PyExc_ValueError, "outer, units and inner make more elements than memory can hold.");
        return 0;
    }
    return check_elements(layers->data, outer * units * inner, layers->dtype);
}

static float round_up(double bound)
{
    float narrow_bound = (float)bound;
    return (double)narrow_bound < bound ? nextafterf(narrow_bound, HUGE_VALF) : narrow_bound;
}

static PyObject *py_units_into(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    int64_t outer, units, inner, dtype;
    Layers layers;
    Py_buffer columns;
    (void)module;
    if (!take_arguments("units_into", given, 7) || !take_address(args[0], &layers.data) ||
        !take_whole(args[1], &outer) || !take_whole(args[2], &units) || !take_whole(args[3], &inner) ||
        !take_whole(args[4], &dtype))
        return NULL;
    layers.bound = PyFloat_AsDouble(args[5]);
    if (layers.bound == -1.0 && PyErr_Occurred())
        return NULL;
    layers.dtype = dtype < 0 || dtype >= DTYPES ? DTYPES : (int)dtype;
    if (!check_layers(outer, units, inner, &layers) || !take_rows(args[6], "columns", "d", UNITS, &columns))
        return NULL;
    if (columns.shape[0] != units) {
        PyErr_Format(PyExc_ValueError, "columns has %zd rows; it must have one for each of %lld units.",
                     columns.shape[0], (long long)units);
        PyBuffer_Release(&columns);
        return NULL;
    }
    layers.outer = (uint64_t)outer;
    layers.units = (uint64_t)units;
    layers.inner = (uint64_t)inner;
    layers.columns = columns.buf;
    int done = 1;
    if (outer && units && inner) {
        PyThreadState *thread = let_others_run((double)outer * (double)units * (double)inner * SIZES[layers.dtype]);
        FloatState state = enter_float_state();
        layers.narrow_bound = round_up(layers.bound);
        done = summarize_units(&layers);
        leave_float_state(state);
        take_over(thread);
    }
    PyBuffer_Release(&columns);
    return done ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

static PyObject *copy_all(const Task *tasks, size_t count)
{
    Sharing sharing = {take_copy, tasks, count, NULL, 0, NULL, NULL, 1};
    PyThreadState *state = let_others_run(size_of_all(tasks, count));
    int is_done = share(&sharing);
    take_over(state);
    return is_done ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

static PyObject *py_copy(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    const char *destination;
    Task task = {{NULL, NULL, NULL, U8}, 0, {{-1, 0}, {-1, 0}}};
    (void)module;
    if (!take_arguments("copy", given, 3) || !take_address(args[0], &destination) ||
        !take_address(args[1], &task.source.data) || !take_whole(args[2], &task.numel) ||
        !check_elements(destination, task.numel, U8) || !check_elements(task.source.data, task.numel, U8))
        return NULL;
    task.source.advance = (char *)destination;
    return copy_all(&task, 1);
}

static PyObject *py_copy_many(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    static const int lists[] = {POINTERS, MINUSES, NUMELS};
    Batch batch;
    (void)module;
    if (!take_arguments("copy_many", given, 3))
        return NULL;
    Task *tasks = take_batch(args, lists, 3, &batch) ? tasks_of(&batch) : NULL;
    for (size_t i = 0; tasks && i < batch.count; i++) {
        tasks[i].source.advance = (char *)tasks[i].source.data;
        tasks[i].source.data = tasks[i].source.minus;
        tasks[i].source.minus = NULL;
    }
    PyObject *done = tasks ? copy_all(tasks, batch.count) : NULL;
    PyMem_Free(tasks);
    release_batch(&batch);
    return done;
}

static PyObject *py_use_threads(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    int64_t threads;
    (void)module;
    if (!take_arguments("use_threads", given, 1) || !take_whole(args[0], &threads))
        return NULL;
    if (threads < 1 || threads > MOST_HELPERS + 1) {
        PyErr_Format(PyExc_ValueError, "threads is %lld; it must be 1 to %d.", (long long)threads, MOST_HELPERS + 1);
        return NULL;
    }
    return PyLong_FromLong(use_helpers((int)threads - 1) + 1);
}

static PyObject *py_instructions(PyObject *module, PyObject *nothing)
{
    PyObject *names = PyList_New(0);
    (void)module;
    (void)nothing;
    for (int i = 0; names && i < LEVELS; i++) {
        PyObject *name = levels[i].supported ? PyUnicode_FromString(levels[i].name) : NULL;
        if (levels[i].supported && (!name || PyList_Append(names, name) < 0))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *py_use_instructions(PyObject *module, PyObject *name)
{
    (void)module;
    for (int i = 0; i < LEVELS; i++)
        if (levels[i].supported && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, levels[i].name) == 0) {
            PyObject *before = PyUnicode_FromString(level->name);
            level = &levels[i];
            return before;
        }
    PyErr_Format(PyExc_ValueError, "%R is not among instructions().", name);
    return NULL;
}

/* ---- XLA ------------------------------------------------------------------------------------------------------- */

#include "_native_xla.h"

/* ---- The module ------------------------------------------------------------------------------------------------ */

#define CALL(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, "See barograph.measures.native."}

static PyMethodDef methods[] = {
    CALL(summarize_into),
    CALL(summarize_many),
    CALL(difference_into),
    CALL(difference_many),
    CALL(units_into),
    CALL(copy),
    CALL(copy_many),
    CALL(all_finite),
    CALL(use_threads),
    {"instructions", py_instructions, METH_NOARGS, "Return the names of the sets of instructions this processor has."},
    {"use_instructions", py_use_instructions, METH_O, "Use the set of that name; return the one in use before."},
    {"xla_handler", py_xla_handler, METH_NOARGS, "Return a capsule of what programs of XLA call."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    (void)module;
    choose_level();
    prepare_helpers();
    fill_float8_tables();
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "barograph._native", "The fused statistics loop.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
