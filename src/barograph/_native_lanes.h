/* The loops of `_native.c` that are written once and compiled for several widths of vector.
 *
 * The file is included once for each width, with
 *     WIDTH      bytes of a vector: 64, 32, 16, or 4 where the compiler knows no vectors
 *     TARGET     attribute that lets a function use the instructions of that width
 *     LOOPS(x)   the name of x at this width
 *     MIN_F32, MAX_F32, MIN_F64, MAX_F64   smaller and larger of two vectors
 *     WIDEN_F16(from, to)   brings a vector of float16 into float32; left out where there is no instruction for it
 *     ONE_BIT(v), MAX_U32, XOR3, MAJORITY   1 << v, and 0 for v of 32 or more; the larger; parity and majority of
 *         three, bit by bit; left out where 1 << v is not an instruction, and histograms are counted one by one
 *
 * Whatever the width, element i of a block is added to lane i % LANES, in order, and lanes are added up in one
 * order. So the result has the same bits on every processor; fused multiply-add would spoil that, and is switched
 * off where this is compiled. */

#define VF LOOPS(vector_f32)
#define VI LOOPS(vector_i32)
#define VD LOOPS(vector_f64)
#define VL LOOPS(vector_i64)
#define HALF LOOPS(vector_half)

#if WIDTH > 4
typedef float VF __attribute__((vector_size(WIDTH)));
typedef int32_t VI __attribute__((vector_size(WIDTH)));
typedef double VD __attribute__((vector_size(WIDTH)));
typedef int64_t VL __attribute__((vector_size(WIDTH)));
typedef float HALF __attribute__((vector_size(WIDTH / 2)));
#define ANYWHERE __attribute__((aligned(1), may_alias))
#define WIDEN(half) __builtin_convertvector(half, VD)
#define COUNT(counter, condition) ((counter) -= (condition)) /* true is −1 in a vector */
#define BITS_F32(v) ((VI)(v))
#define FROM_BITS_F32(v) ((VF)(v))
#define BITS_F64(v) ((VL)(v))
#define FROM_BITS_F64(v) ((VD)(v))
#define D_WIDTH (WIDTH / 8)
#else
typedef float VF;
typedef int32_t VI;
typedef double VD;
typedef int64_t VL;
typedef float HALF;
#define ANYWHERE
#define WIDEN(half) ((double)(half))
#define COUNT(counter, condition) ((counter) += (condition))
#define BITS_F32(v) bits_of_f32(v)
#define FROM_BITS_F32(v) f32_of_bits(v)
#define BITS_F64(v) bits_of_f64(v)
#define FROM_BITS_F64(v) f64_of_bits(v)
#define D_WIDTH 1
#endif

/* Vectors as they lie in memory: at any address, in an array of their elements. A variable that memcpy writes may be
 * kept in memory for good; one that these write stays in a register. */
typedef VF LOOPS(stored_f32) ANYWHERE;
typedef VI LOOPS(stored_i32) ANYWHERE;
typedef VD LOOPS(stored_f64) ANYWHERE;
typedef VL LOOPS(stored_i64) ANYWHERE;
typedef HALF LOOPS(stored_half) ANYWHERE;
#define F32_AT(p) (*(LOOPS(stored_f32) *)(p))
#define I32_AT(p) (*(LOOPS(stored_i32) *)(p))
#define F64_AT(p) (*(LOOPS(stored_f64) *)(p))
#define I64_AT(p) (*(LOOPS(stored_i64) *)(p))
#define HALF_AT(p) (*(LOOPS(stored_half) *)(p))

#define F_WIDTH (WIDTH / 4)
#define AT_ONCE (WIDTH == 64 ? 2 : 4) /* vectors of lanes summed at once */

/* Asks for what is read a little later: processors do not look beyond a page by themselves, nor as far as memory that
 * is in no cache is away. Nothing is touched, so it may lie past the end. */
#if WIDTH > 4
#define SOON(p) __builtin_prefetch((const void *)((uintptr_t)(p) + AHEAD_BYTES))
#else
#define SOON(p) ((void)0)
#endif

/* One vector of a block into its lanes. Written out, since arrays indexed in a loop may be kept in memory. */
#define ADD_VECTOR(r)                                                                                                 \
    VF v##r = F32_AT(x + i + r * F_WIDTH);                                                                            \
    VI magnitude##r = BITS_F32(v##r) & 0x7fffffff;                                                                    \
    sum[r] += v##r;                                                                                                   \
    sum_abs[r] += FROM_BITS_F32(magnitude##r);                                                                        \
    sum_sq[r] += v##r * v##r;                                                                                         \
    COUNT(zeros, magnitude##r == 0)

/* Adds up float lanes in double, into D_LANES partial sums. */
TARGET static void LOOPS(fold)(const float *lanes, double *partial)
{
    for (int d = 0; d < D_LANES; d += D_WIDTH) {
        VD total = WIDEN(HALF_AT(lanes + d));
        for (int l = D_LANES; l < LANES; l += D_LANES)
            total += WIDEN(HALF_AT(lanes + l + d));
        F64_AT(partial + d) = total;
    }
}

/* Sums of one block, and extremes and zeros on top of those of the blocks before it.
 * Where an element is not finite, or its square is not, sum_sq is not, and nothing else here is to be used.
 *
 * Three sums for each of LANES lanes are more than the registers of narrow vectors hold: there the block, which stays
 * in the nearest cache, is gone over several times, each time for some of the lanes. */
TARGET static void LOOPS(moments_f32)(const float *x, size_t n, const Extremes *before, Extremes *after, Sums *sums)
{
    float lanes[3][LANES];
    VF low = F32_AT(before->low), high = F32_AT(before->high);
    VI zeros = I32_AT(before->zeros);
    size_t whole = n - n % LANES;

    for (int first = 0; first < LANES; first += AT_ONCE * F_WIDTH) {
        VF sum[AT_ONCE] = {0}, sum_abs[AT_ONCE] = {0}, sum_sq[AT_ONCE] = {0};
        for (size_t i = (size_t)first; i < whole; i += LANES) {
            SOON(x + i);
            if (AT_ONCE * WIDTH > LINE_BYTES)
                SOON(x + i + LINE_BYTES / sizeof *x);
            ADD_VECTOR(0);
            ADD_VECTOR(1);
            VF least = MIN_F32(v0, v1), most = MAX_F32(v0, v1);
#if AT_ONCE == 4
            ADD_VECTOR(2);
            ADD_VECTOR(3);
            least = MIN_F32(least, MIN_F32(v2, v3));
            most = MAX_F32(most, MAX_F32(v2, v3));
#endif
            low = MIN_F32(least, low);
            high = MAX_F32(most, high);
        }
        for (int r = 0; r < AT_ONCE; r++) {
            F32_AT(lanes[0] + first + r * F_WIDTH) = sum[r];
            F32_AT(lanes[1] + first + r * F_WIDTH) = sum_abs[r];
            F32_AT(lanes[2] + first + r * F_WIDTH) = sum_sq[r];
        }
    }

    F32_AT(after->low) = low;
    F32_AT(after->high) = high;
    I32_AT(after->zeros) = zeros;
    for (size_t i = whole; i < n; i++) {
        size_t l = i - whole;
        lanes[0][l] += x[i];
        lanes[1][l] += fabsf(x[i]);
        lanes[2][l] += x[i] * x[i];
        after->low[0] = x[i] < after->low[0] ? x[i] : after->low[0];
        after->high[0] = x[i] > after->high[0] ? x[i] : after->high[0];
        after->zeros[0] += x[i] == 0.0f;
    }
    LOOPS(fold)(lanes[0], sums->sum);
    LOOPS(fold)(lanes[1], sums->sum_abs);
    LOOPS(fold)(lanes[2], sums->sum_sq);
}

/* The same of a block of float64, for itself. Where an element is not finite, sum_abs is not. */
TARGET static void LOOPS(moments_f64)(const double *x, size_t n, Block64 *block)
{
    size_t whole = n - n % D_LANES;
    for (int d = 0; d < D_LANES; d += D_WIDTH) {
        VD sum = {0}, sum_abs = {0}, sum_sq = {0}, low = {0}, high = {0};
        VL zeros = {0};
        low += HUGE_VAL;
        high -= HUGE_VAL;
        for (size_t i = (size_t)d; i < whole; i += D_LANES) {
            VD v = F64_AT(x + i);
            VL magnitude = BITS_F64(v) & INT64_MAX;
            sum += v;
            sum_abs += FROM_BITS_F64(magnitude);
            sum_sq += v * v;
            low = MIN_F64(v, low);
            high = MAX_F64(v, high);
            COUNT(zeros, magnitude == 0);
        }
        F64_AT(block->sums.sum + d) = sum;
        F64_AT(block->sums.sum_abs + d) = sum_abs;
        F64_AT(block->sums.sum_sq + d) = sum_sq;
        F64_AT(block->low + d) = low;
        F64_AT(block->high + d) = high;
        I64_AT(block->zeros + d) = zeros;
    }
    for (size_t i = whole; i < n; i++) {
        size_t l = i - whole;
        block->sums.sum[l] += x[i];
        block->sums.sum_abs[l] += fabs(x[i]);
        block->sums.sum_sq[l] += x[i] * x[i];
        block->low[l] = x[i] < block->low[l] ? x[i] : block->low[l];
        block->high[l] = x[i] > block->high[l] ? x[i] : block->high[l];
        block->zeros[l] += x[i] == 0.0;
    }
}

/* Sums, extremes and counts down the columns of a strip of STRIP columns: `rows` rows, `stride` elements apart. */
TARGET static void LOOPS(strip)(const float *x, size_t rows, size_t stride, float bound, Strip *strip)
{
    VF sum[STRIP / F_WIDTH] = {0}, sum_sq[STRIP / F_WIDTH] = {0}, low[STRIP / F_WIDTH] = {0};
    VF high[STRIP / F_WIDTH] = {0}, bounds = {0};
    VI zeros[STRIP / F_WIDTH] = {0}, beyond[STRIP / F_WIDTH] = {0};
    bounds += bound;
    for (int r = 0; r < STRIP / F_WIDTH; r++) {
        low[r] += HUGE_VALF;
        high[r] -= HUGE_VALF;
    }
    for (size_t row = 0; row < rows; row++)
        for (int r = 0; r < STRIP / F_WIDTH; r++) {
            VF v = F32_AT(x + row * stride + r * F_WIDTH);
            VI magnitude = BITS_F32(v) & 0x7fffffff;
            sum[r] += v;
            sum_sq[r] += v * v;
            low[r] = MIN_F32(v, low[r]);
            high[r] = MAX_F32(v, high[r]);
            COUNT(zeros[r], magnitude == 0);
            COUNT(beyond[r], FROM_BITS_F32(magnitude) >= bounds);
        }
    for (int r = 0; r < STRIP / F_WIDTH; r++) {
        F32_AT(strip->sum + r * F_WIDTH) = sum[r];
        F32_AT(strip->sum_sq + r * F_WIDTH) = sum_sq[r];
        F32_AT(strip->low + r * F_WIDTH) = low[r];
        F32_AT(strip->high + r * F_WIDTH) = high[r];
        I32_AT(strip->zeros + r * F_WIDTH) = zeros[r];
        I32_AT(strip->beyond + r * F_WIDTH) = beyond[r];
    }
}

TARGET static size_t LOOPS(count_beyond)(const float *x, size_t n, float bound)
{
    int32_t beyond = 0;
    for (size_t i = 0; i < n; i++)
        beyond += fabsf(x[i]) >= bound;
    return (size_t)beyond;
}

/* Numbers of denormal elements of a block, by sign. */
TARGET static void LOOPS(count_denormals)(const float *x, size_t n, int32_t counts[2])
{
    int32_t all = 0, negative = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        int32_t denormal = (bits & 0x7fffffffu) - 1u < 0x7fffffu;
        all += denormal;
        negative += denormal & (int32_t)(bits >> 31);
    }
    counts[0] = all - negative;
    counts[1] = negative;
}

/* `out` may be one of the two: vectors are written out here, since a compiler gives up where they overlap. */
TARGET static void LOOPS(subtract)(const float *after, const float *before, size_t n, float *out)
{
    size_t i = 0;
    for (; i + F_WIDTH <= n; i += F_WIDTH)
        F32_AT(out + i) = F32_AT(after + i) - F32_AT(before + i);
    for (; i < n; i++)
        out[i] = after[i] - before[i];
}

TARGET static void LOOPS(from_bfloat16)(const char *x, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, x + i * sizeof half, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

/* Shifted into place a half has an exponent 112 too small; multiplying puts that right, denormals included.
 * What was infinite or NaN then lies at 65536 or beyond, where no half does, and gets the exponent of infinity. */
TARGET static void LOOPS(from_float16)(const char *x, size_t n, float *out)
{
    size_t i = 0;
#ifdef WIDEN_F16
    for (; i + F_WIDTH <= n; i += F_WIDTH)
        WIDEN_F16(x + i * sizeof(uint16_t), out + i);
#endif
    for (; i < n; i++) {
        uint16_t half;
        memcpy(&half, x + i * sizeof half, sizeof half);
        uint32_t shifted = (uint32_t)(half & 0x7fff) << 13, bits;
        float value;
        memcpy(&value, &shifted, sizeof value);
        value *= 0x1p112f;
        memcpy(&bits, &value, sizeof bits);
        bits |= value >= 65536.0f ? 0x7f800000u : 0u;
        bits |= (uint32_t)(half & 0x8000) << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

/* Whether every element of a block is finite: without the sign, what is not has the largest bits. */
TARGET static int LOOPS(finite_f32)(const float *x, size_t n)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7f800000u;
}

/* The same of STREAMS stretches of n elements each, `apart` elements from one to the next, all at once: memory that no
 * cache holds is fetched page by page ahead, and of several pages more is under way at a time. */
TARGET static int LOOPS(finite_streams)(const float *x, size_t n, size_t apart)
{
    uint32_t largest[STREAMS] = {0};
    for (size_t i = 0; i < n; i++)
        for (int s = 0; s < STREAMS; s++) {
            uint32_t bits;
            memcpy(&bits, x + s * apart + i, sizeof bits);
            bits &= 0x7fffffffu;
            largest[s] = bits > largest[s] ? bits : largest[s];
        }
    uint32_t all = 0;
    for (int s = 0; s < STREAMS; s++)
        all = largest[s] > all ? largest[s] : all;
    return all < 0x7f800000u;
}

TARGET static int LOOPS(finite_f64)(const double *x, size_t n)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffffffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7ff0000000000000u;
}

/* The largest exponent field of a finite element. */
TARGET static uint32_t LOOPS(largest_field)(const float *x, size_t n)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffu;
        bits = bits < 0x7f800000u ? bits : 0;
        largest = bits > largest ? bits : largest;
    }
    return largest >> 23;
}

/* How many elements, zeros aside, have an exponent field outside the window. */
TARGET static size_t LOOPS(count_outside)(const float *x, size_t n, uint32_t base)
{
    uint32_t outside = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffu;
        outside += (uint32_t)((bits >> 23) - base >= WINDOW) & (uint32_t)(bits != 0);
    }
    return outside;
}

#ifdef ONE_BIT

/* Counts exponents without touching a table: an element becomes a word with one bit set, that of its exponent in the
 * window, and words are added up bit by bit with full adders. Bit e of plane p then stands for 2**p elements of
 * exponent e. Four planes are in registers: only each sixteenth word carries into those above. (The adders are those
 * of Harley and Seal's count of bits; see Muła, Kurz and Lemire, "Faster Population Counts Using AVX2", 2018.) */
#define VU LOOPS(vector_u32)
typedef uint32_t VU __attribute__((vector_size(WIDTH)));
typedef VU LOOPS(stored_u32) ANYWHERE;
#define U32_AT(p) (*(LOOPS(stored_u32) *)(p))

#define ADD_WORDS(carry, sum, a, b)                                                                                   \
    do {                                                                                                              \
        VU a_ = (a), b_ = (b);                                                                                        \
        (carry) = MAJORITY(sum, a_, b_);                                                                              \
        (sum) = XOR3(sum, a_, b_);                                                                                    \
    } while (0)

#define WORD(k, j)                                                                                                    \
    VU bits##j = U32_AT(x + i + ((k) + j) * F_WIDTH);                                                                 \
    VU place##j = ((bits##j << 1) >> 24) - bases;                                                                     \
    VU word##j = ONE_BIT(place##j), negative##j = word##j & (VU)((VI)bits##j >> 31);                                  \
    furthest = MAX_U32(furthest, place##j)

#define ADD_TWO_WORDS(k, carry)                                                                                       \
    do {                                                                                                              \
        WORD(k, 0);                                                                                                   \
        WORD(k, 1);                                                                                                   \
        ADD_WORDS(carry[0], sums[0][0], word0, word1);                                                                \
        ADD_WORDS(carry[1], sums[1][0], negative0, negative1);                                                        \
    } while (0)

#define ADD_CARRIES(plane, carry, a, b)                                                                               \
    do {                                                                                                              \
        ADD_WORDS(carry[0], sums[0][plane], a[0], b[0]);                                                              \
        ADD_WORDS(carry[1], sums[1][plane], a[1], b[1]);                                                              \
    } while (0)

/* Adds whole groups of elements to the planes: those of all elements, and those of the negative ones.
 * Returns whether some lay outside the window, zeros among them; those are not counted. */
TARGET static int LOOPS(count_window)(const float *x, size_t n, uint32_t base, uint32_t *planes)
{
    VU sums[2][4], bases = {0}, furthest = {0};
    bases += base;
    for (int p = 0; p < 4; p++) {
        sums[0][p] = U32_AT(planes + p * F_WIDTH);
        sums[1][p] = U32_AT(planes + (PLANES + p) * F_WIDTH);
    }

    for (size_t i = 0; i < n; i += 16 * F_WIDTH) {
        VU two_a[2], two_b[2], four_a[2], four_b[2], eight_a[2], eight_b[2], sixteen[2];
        ADD_TWO_WORDS(0, two_a);
        ADD_TWO_WORDS(2, two_b);
        ADD_CARRIES(1, four_a, two_a, two_b);
        ADD_TWO_WORDS(4, two_a);
        ADD_TWO_WORDS(6, two_b);
        ADD_CARRIES(1, four_b, two_a, two_b);
        ADD_CARRIES(2, eight_a, four_a, four_b);
        ADD_TWO_WORDS(8, two_a);
        ADD_TWO_WORDS(10, two_b);
        ADD_CARRIES(1, four_a, two_a, two_b);
        ADD_TWO_WORDS(12, two_a);
        ADD_TWO_WORDS(14, two_b);
        ADD_CARRIES(1, four_b, two_a, two_b);
        ADD_CARRIES(2, eight_b, four_a, four_b);
        ADD_CARRIES(3, sixteen, eight_a, eight_b);
        for (int s = 0; s < 2; s++)
            for (int p = 4; p < PLANES; p++) {
                uint32_t *plane = planes + (s * PLANES + p) * F_WIDTH;
                VU before = U32_AT(plane);
                U32_AT(plane) = before ^ sixteen[s];
                sixteen[s] &= before;
            }
    }

    for (int p = 0; p < 4; p++) {
        U32_AT(planes + p * F_WIDTH) = sums[0][p];
        U32_AT(planes + (PLANES + p) * F_WIDTH) = sums[1][p];
    }
    uint32_t places[F_WIDTH], largest = 0;
    U32_AT(places) = furthest;
    for (int l = 0; l < F_WIDTH; l++)
        largest = places[l] > largest ? places[l] : largest;
    return largest >= WINDOW;
}

/* Reads the planes into counts by exponent, of all elements and of the negative ones. */
TARGET static void LOOPS(read_planes)(const uint32_t *planes, uint32_t counts[2][WINDOW])
{
    for (int s = 0; s < 2; s++)
        for (int e = 0; e < WINDOW; e++) {
            VU total = {0};
            for (int p = 0; p < PLANES; p++)
                total += ((U32_AT(planes + (s * PLANES + p) * F_WIDTH) >> e) & 1) << p;
            uint32_t lanes[F_WIDTH], count = 0;
            U32_AT(lanes) = total;
            for (int l = 0; l < F_WIDTH; l++)
                count += lanes[l];
            counts[s][e] = count;
        }
}

#undef VU
#undef U32_AT
#undef WORD
#undef ADD_WORDS
#undef ADD_TWO_WORDS
#undef ADD_CARRIES
#define WINDOW_LOOPS F_WIDTH, LOOPS(count_window), LOOPS(read_planes)
#else
#define WINDOW_LOOPS 0, NULL, NULL
#endif

static const Loops LOOPS(loops) = {
    LOOPS(moments_f32),     LOOPS(moments_f64),   LOOPS(strip),         LOOPS(count_beyond),
    LOOPS(count_denormals), LOOPS(largest_field), LOOPS(count_outside), WINDOW_LOOPS,
    LOOPS(subtract),        LOOPS(from_bfloat16), LOOPS(from_float16),  LOOPS(finite_f32),
    LOOPS(finite_f64),      LOOPS(finite_streams),
};

#undef VF
#undef VI
#undef VD
#undef VL
#undef HALF
#undef ANYWHERE
#undef F32_AT
#undef I32_AT
#undef F64_AT
#undef I64_AT
#undef HALF_AT
#undef WIDEN
#undef COUNT
#undef BITS_F32
#undef FROM_BITS_F32
#undef BITS_F64
#undef FROM_BITS_F64
#undef D_WIDTH
#undef F_WIDTH
#undef AT_ONCE
#undef SOON
#undef ADD_VECTOR
#undef WIDTH
#undef TARGET
#undef LOOPS
#undef MIN_F32
#undef MAX_F32
#undef MIN_F64
#undef MAX_F64
#undef WIDEN_F16
#undef ONE_BIT
#undef MAX_U32
#undef XOR3
#undef MAJORITY
#undef WINDOW_LOOPS
