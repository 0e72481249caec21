/* ints512.h - AVX-512 vectors of integers, for loops of several instruction sets.
 *
 * No include guard: each use ends with ints_end.h.  LANES is the number of 32-bit lanes.
 * `n` counts elements at the pointer: beyond it GET_BYTES has `fill`, and nothing is written.
 */
#define INTS __m512i
#define FLOATS __m512
#define HALF __m256i /* 2 LANES bytes */
#define LANES 16
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define NAME(x) x##_avx512
#define GET(p) _mm512_loadu_si512(p)
#define PUT(p, v) _mm512_storeu_si512(p, v)
#define GET_FLOATS(p) _mm512_loadu_ps(p)
#define NONE() _mm512_setzero_si512()
#define ALL16(a) _mm512_set1_epi16((short)(a))
#define ALL32(a) _mm512_set1_epi32(a)
#define ALL_FLOATS(a) _mm512_set1_ps(a)
#define ADD16(a, b) _mm512_add_epi16(a, b)
#define SUB16(a, b) _mm512_sub_epi16(a, b)
#define SHIFT16(a, n) _mm512_slli_epi16(a, n)
#define ADD32(a, b) _mm512_add_epi32(a, b)
#define SUB32(a, b) _mm512_sub_epi32(a, b)
#define MUL32(a, b) _mm512_mullo_epi32(a, b)
#define SHIFT32(a, n) _mm512_slli_epi32(a, n)
#define SHIFT_BACK32(a, n) _mm512_srai_epi32(a, n)
#define ADD_PAIRS(sum, a, b) _mm512_dpwssd_epi32(sum, a, b) /* products of pairs of 16 bits */
#define WIDEN(bytes, is_signed) \
    ((is_signed) ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes))
#define WIDEN32(p, is_signed)                                               \
    ((is_signed) ? _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))) \
                 : _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p))))
#define TO_FLOATS(v) _mm512_cvtepi32_ps(v)
#define TO_INTS(v) _mm512_cvtps_epi32(v) /* rounded half to even */
#define ADD_FLOATS(a, b) _mm512_add_ps(a, b)
#define MUL_FLOATS(a, b) _mm512_mul_ps(a, b)
#define MAX_FLOATS(a, b) _mm512_max_ps(a, b)
#define MIN_FLOATS(a, b) _mm512_min_ps(a, b)
#define KEEP_ORDER(a, b) __asm__("" : "+v"(a), "+v"(b)) /* in place, without spills */
#define GET_BYTES(p, n, fill)                                                                   \
    ((n) < 32                                                                                   \
         ? _mm256_mask_loadu_epi8(_mm256_set1_epi8((char)(fill)), ((__mmask32)1 << (n)) - 1, p) \
         : _mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define PUT16(p, v, n) \
    _mm512_mask_storeu_epi16(p, (n) < 32 ? ((__mmask32)1 << (n)) - 1 : ~(__mmask32)0, v)
#define PUT_BYTES(p, v, n)                                                     \
    _mm_mask_storeu_epi8(p, (__mmask16)((n) < 16 ? (1u << (n)) - 1 : 0xffffu), \
                         _mm512_cvtepi32_epi8(v)) /* the lowest byte of each lane */
