/* vec_plain.h - portable vectors of eight floats (base/simd.h); see vec512.h. */
#define VEC pare_v8
#define LOAD(p) PARE_V8(p)
#define STORE(p, v) PARE_PUT8(p, v)
#define ZERO() ((pare_v8){ 0 })
#define ALL(a) PARE_ALL8(a)
#define FMA(a, b, c) ((a) * (b) + (c))
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define PICK(holds, a, b) ((pare_v8)(((holds) & (pare_m8)(a)) | (~(holds) & (pare_m8)(b))))
#define MAX(a, b) PICK((a) > (b), a, b)
#define MIN(a, b) PICK((a) < (b), a, b)
#define ROUND(v) ((v) + 12582912.0f - 12582912.0f) /* 1.5 * 2^23: sums with it are integers */
#define TIMES_POW2(v, k) ((pare_v8)((pare_m8)(v) + ((pare_m8)((k) + 12582912.0f) << 23)))
#define INVERSE(v) (1.0f / (v))
#define BLOCK 8
#define TARGET
#define NAME(x) x##_plain
