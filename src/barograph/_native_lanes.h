/* The loops of `_native.c` that are written once and compiled for several widths of vector.
 *
 * The file is included once for each width, with
 *     WIDTH      bytes of a vector: 64, 32, 16, or 4 where the compiler knows no vectors
 *     TARGET     attribute that lets a function use the instructions of that width
 *     LOOPS(x)   the name of x at this width
 *     MIN_F32, MAX_F32, MIN_F64, MAX_F64   smaller and larger of two vectors
 *     WIDEN_F16(from, to)   brings a vector of float16 into float32; left out where there is no instruction for it
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
#define WIDEN(half) ((double)(half))
#define COUNT(counter, condition) ((counter) += (condition))
#define BITS_F32(v) bits_of_f32(v)
#define FROM_BITS_F32(v) f32_of_bits(v)
#define BITS_F64(v) bits_of_f64(v)
#define FROM_BITS_F64(v) f64_of_bits(v)
#define D_WIDTH 1
#endif

#define F_WIDTH (WIDTH / 4)
#define F_REGISTERS (LANES / F_WIDTH)
#define D_REGISTERS (D_LANES / D_WIDTH)
#define STRIP_REGISTERS (STRIP / F_WIDTH)

#define ADD_TO_SUMS(r)                                                                                                \
    do {                                                                                                              \
        sum[r] += v;                                                                                                  \
        sum_abs[r] += FROM_BITS_F32(BITS_F32(v) & 0x7fffffff);                                                        \
        sum_sq[r] += v * v;                                                                                           \
    } while (0)

#define ADD_TO_EXTREMES(r)                                                                                            \
    do {                                                                                                              \
        low[r] = MIN_F32(v, low[r]);                                                                                  \
        high[r] = MAX_F32(v, high[r]);                                                                                \
        COUNT(zeros[r], (BITS_F32(v) & 0x7fffffff) == 0);                                                             \
    } while (0)

/* Adds up float lanes in double, into D_LANES partial sums. */
TARGET static void LOOPS(fold)(const float *lanes, double *partial)
{
    VD total[D_REGISTERS];
    for (int r = 0; r < D_REGISTERS; r++) {
        HALF half;
        memcpy(&half, lanes + r * D_WIDTH, sizeof half);
        total[r] = WIDEN(half);
    }
    for (int l = D_LANES; l < LANES; l += D_LANES)
        for (int r = 0; r < D_REGISTERS; r++) {
            HALF half;
            memcpy(&half, lanes + l + r * D_WIDTH, sizeof half);
            total[r] += WIDEN(half);
        }
    memcpy(partial, total, sizeof total);
}

/* Sums of one block, and extremes and zeros on top of those of the blocks before it.
 * Where an element is not finite, or its square is not, sum_sq is not, and nothing else here is to be used. */
TARGET static void LOOPS(moments_f32)(const float *x, size_t n, const Extremes *before, Extremes *after, Sums *sums)
{
    VF sum[F_REGISTERS], sum_abs[F_REGISTERS], sum_sq[F_REGISTERS];
    VF low[F_REGISTERS], high[F_REGISTERS];
    VI zeros[F_REGISTERS];
    size_t whole = n - n % LANES;

    memset(sum, 0, sizeof sum);
    memset(sum_abs, 0, sizeof sum_abs);
    memset(sum_sq, 0, sizeof sum_sq);
    memcpy(low, before->low, sizeof low);
    memcpy(high, before->high, sizeof high);
    memcpy(zeros, before->zeros, sizeof zeros);

#if WIDTH == 64
    for (size_t i = 0; i < whole; i += LANES)
        for (int r = 0; r < F_REGISTERS; r++) {
            VF v;
            memcpy(&v, x + i + r * F_WIDTH, sizeof v);
            ADD_TO_SUMS(r);
            ADD_TO_EXTREMES(r);
        }
#else /* twice over a block that stays in the nearest cache: there are not registers enough for all at once */
    for (size_t i = 0; i < whole; i += LANES)
        for (int r = 0; r < F_REGISTERS; r++) {
            VF v;
            memcpy(&v, x + i + r * F_WIDTH, sizeof v);
            ADD_TO_SUMS(r);
        }
    for (size_t i = 0; i < whole; i += LANES)
        for (int r = 0; r < F_REGISTERS; r++) {
            VF v;
            memcpy(&v, x + i + r * F_WIDTH, sizeof v);
            ADD_TO_EXTREMES(r);
        }
#endif

    float lanes[3][LANES];
    memcpy(lanes[0], sum, sizeof sum);
    memcpy(lanes[1], sum_abs, sizeof sum_abs);
    memcpy(lanes[2], sum_sq, sizeof sum_sq);
    memcpy(after->low, low, sizeof low);
    memcpy(after->high, high, sizeof high);
    memcpy(after->zeros, zeros, sizeof zeros);
    for (size_t i = whole; i < n; i++) {
        size_t l = i - whole;
        lanes[0][l] += x[i];
        lanes[1][l] += fabsf(x[i]);
        lanes[2][l] += x[i] * x[i];
        after->low[l] = x[i] < after->low[l] ? x[i] : after->low[l];
        after->high[l] = x[i] > after->high[l] ? x[i] : after->high[l];
        after->zeros[l] += x[i] == 0.0f;
    }
    LOOPS(fold)(lanes[0], sums->sum);
    LOOPS(fold)(lanes[1], sums->sum_abs);
    LOOPS(fold)(lanes[2], sums->sum_sq);
}

/* The same of a block of float64, for itself. Where an element is not finite, sum_abs is not. */
TARGET static void LOOPS(moments_f64)(const double *x, size_t n, Block64 *block)
{
    VD sum[D_REGISTERS], sum_abs[D_REGISTERS], sum_sq[D_REGISTERS], low[D_REGISTERS], high[D_REGISTERS];
    VL zeros[D_REGISTERS];
    size_t whole = n - n % D_LANES;

    memset(sum, 0, sizeof sum);
    memset(sum_abs, 0, sizeof sum_abs);
    memset(sum_sq, 0, sizeof sum_sq);
    memset(zeros, 0, sizeof zeros);
    for (int l = 0; l < D_LANES; l++) {
        block->low[l] = HUGE_VAL;
        block->high[l] = -HUGE_VAL;
    }
    memcpy(low, block->low, sizeof low);
    memcpy(high, block->high, sizeof high);

    for (size_t i = 0; i < whole; i += D_LANES)
        for (int r = 0; r < D_REGISTERS; r++) {
            VD v;
            memcpy(&v, x + i + r * D_WIDTH, sizeof v);
            sum[r] += v;
            sum_abs[r] += FROM_BITS_F64(BITS_F64(v) & INT64_MAX);
            sum_sq[r] += v * v;
            low[r] = MIN_F64(v, low[r]);
            high[r] = MAX_F64(v, high[r]);
            COUNT(zeros[r], (BITS_F64(v) & INT64_MAX) == 0);
        }

    memcpy(block->sums.sum, sum, sizeof sum);
    memcpy(block->sums.sum_abs, sum_abs, sizeof sum_abs);
    memcpy(block->sums.sum_sq, sum_sq, sizeof sum_sq);
    memcpy(block->low, low, sizeof low);
    memcpy(block->high, high, sizeof high);
    memcpy(block->zeros, zeros, sizeof zeros);
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
    VF sum[STRIP_REGISTERS], sum_sq[STRIP_REGISTERS], low[STRIP_REGISTERS], high[STRIP_REGISTERS];
    VI zeros[STRIP_REGISTERS], beyond[STRIP_REGISTERS];
    VF bounds = {0};
    bounds += bound;

    memset(sum, 0, sizeof sum);
    memset(sum_sq, 0, sizeof sum_sq);
    memset(zeros, 0, sizeof zeros);
    memset(beyond, 0, sizeof beyond);
    for (int l = 0; l < STRIP; l++) {
        strip->low[l] = HUGE_VALF;
        strip->high[l] = -HUGE_VALF;
    }
    memcpy(low, strip->low, sizeof low);
    memcpy(high, strip->high, sizeof high);

    for (size_t row = 0; row < rows; row++)
        for (int r = 0; r < STRIP_REGISTERS; r++) {
            VF v;
            memcpy(&v, x + row * stride + (size_t)(r * F_WIDTH), sizeof v);
            VI magnitude = BITS_F32(v) & 0x7fffffff;
            sum[r] += v;
            sum_sq[r] += v * v;
            low[r] = MIN_F32(v, low[r]);
            high[r] = MAX_F32(v, high[r]);
            COUNT(zeros[r], magnitude == 0);
            COUNT(beyond[r], FROM_BITS_F32(magnitude) >= bounds);
        }

    memcpy(strip->sum, sum, sizeof sum);
    memcpy(strip->sum_sq, sum_sq, sizeof sum_sq);
    memcpy(strip->low, low, sizeof low);
    memcpy(strip->high, high, sizeof high);
    memcpy(strip->zeros, zeros, sizeof zeros);
    memcpy(strip->beyond, beyond, sizeof beyond);
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

TARGET static void LOOPS(subtract)(const float *after, const float *before, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
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

static const Loops LOOPS(loops) = {
    LOOPS(moments_f32), LOOPS(moments_f64),     LOOPS(strip),         LOOPS(count_beyond), LOOPS(count_denormals),
    LOOPS(subtract),    LOOPS(from_bfloat16), LOOPS(from_float16),
};

#undef VF
#undef VI
#undef VD
#undef VL
#undef HALF
#undef WIDEN
#undef COUNT
#undef BITS_F32
#undef FROM_BITS_F32
#undef BITS_F64
#undef FROM_BITS_F64
#undef D_WIDTH
#undef F_WIDTH
#undef F_REGISTERS
#undef D_REGISTERS
#undef STRIP_REGISTERS
#undef ADD_TO_SUMS
#undef ADD_TO_EXTREMES
#undef WIDTH
#undef TARGET
#undef LOOPS
#undef MIN_F32
#undef MAX_F32
#undef MIN_F64
#undef MAX_F64
#undef WIDEN_F16
