/* fastacct.h -- certified differential-privacy accounting of DP-SGD from C, and from every language that calls C.
 *
 *     cc -O2 -fopenmp-simd -fno-math-errno -I "$INCLUDE" program.c "$INCLUDE/../fastacct.c" -lm
 *
 * with INCLUDE the folder of this file, which Python tells: python -c "import fastacct; print(fastacct.get_include())".
 * Neither Python nor NumPy is needed, at compile time or at run time.  C99 and C++ programs may include this header;
 * fastacct.c is one source file for GCC or Clang and includes the kernels, so it stays where it is.
 *
 * Run.  DP-SGD for `steps` steps: in each step every record takes part with probability `sample_rate`, independently
 * of the others (Poisson sampling), contributions are clipped to a norm, and Gaussian noise of standard deviation
 * `noise_multiplier` times that norm is added to their sum.
 *
 * Guarantee.  `upper` is never below the true value and `lower` never above it, whatever the status: quadrature,
 * truncation and rounding are counted.  A program may use `upper` and ignore everything else.  This holds for the exact
 * accountant (the default of the Python package), for the neighbouring relation that is named, and for arithmetic that
 * rounds to nearest: -ffast-math is refused when fastacct.c is compiled.
 *
 * Arrays.  Every array has n entries; entry i of all arrays is one cell, and cells do not depend on each other. Answers
 * may not overlap the inputs or each other.  `lower` and `status` may be NULL where they are not wanted; all other
 * arrays are needed.  Neighbouring cells with equal noise_multiplier and sample_rate share work.
 *
 *     argument            allowed                              unit
 *     noise_multiplier    [0, inf]                             clipping norms
 *     sample_rate         [0, 1]                               probability
 *     steps               whole numbers in [0, 2^53]           steps, as double
 *     delta               [0, 1]                               probability
 *     epsilon             [0, inf]                             nats
 *     orders              (1, 1e11], or inf (largest loss)     Renyi order; divergences are in nats
 *
 * Edge cases.  sample_rate 0, steps 0 or noise_multiplier inf: nothing is released, epsilon 0 and delta 0.
 * noise_multiplier 0: epsilon inf, delta 1, lower bounds of both 0.  delta 1: epsilon 0.  delta 0: epsilon inf, and
 * under FASTACCT_ADD -steps log(1 - sample_rate).  epsilon inf: delta 0.
 *
 * Bad input.  A value out of range or NaN gives FASTACCT_BAD_INPUT in its cell, with the safe side as the answer: lower
 * 0, upper inf (delta: 1).  The other cells are not affected.  An array that is needed but NULL, or an unknown
 * relation, does the same to all cells.  Nothing crashes, exits or prints.
 *
 * Return value.  The largest status of all cells; 0 for n = 0.  Less than FASTACCT_BAD_INPUT means that every cell has
 * an answer.
 *
 * Threads.  No global state: any number of threads may call at once, each with its own part of the answers.  Neither
 * the cutting of the arrays nor the order of the cells changes a bit.
 *
 * Bits.  The answers have the same bits as those of Python's epsilon_bounds, delta_bounds, rdp_bounds and
 * noise_multiplier (fastacct.dpsgd), if one compiler made both, fastacct.c with -fopenmp-simd -fno-math-errno, and
 * Python runs with the environment variable FASTACCT_ISA set to fastacct_instruction_set().  Without these options, or
 * at another level, sums are added in another order: as certified, and different within the certified interval, mostly
 * by 1e-14.  Under FASTACCT_ADD Python improves cells that are FASTACCT_LOOSE by other means.  Order 1
 * (Kullback-Leibler) is Python's only.
 */
#ifndef FASTACCT_H
#define FASTACCT_H

#include <stddef.h>
#include <stdint.h>

#define FASTACCT_VERSION "0.3.0"

#ifdef __cplusplus
extern "C" {
#endif

/* How an answer was obtained.  0 to 2 are those of fastacct.Status in Python. */
typedef enum fastacct_status {
    FASTACCT_TIGHT = 0,         /* upper - lower <= 1e-6 upper, mostly 1e-10 */
    FASTACCT_LOOSE = 1,         /* certified, but wider; lower may be 0 */
    FASTACCT_NOT_MET = 2,       /* no finite answer: upper is the safe side */
    FASTACCT_BAD_INPUT = 3,     /* an argument is out of range, NaN or missing: the safe side */
    FASTACCT_NO_MEMORY = 4,     /* an allocation was refused: the safe side */
    FASTACCT_BAD_ARITHMETIC = 5 /* this thread does not round to nearest, or drops subnormal numbers: the safe side */
} fastacct_status;

/* Which data sets are neighbours: one has one record more.  The larger of both directions, or one of them. */
typedef enum fastacct_relation { FASTACCT_ADD_REMOVE = 0, FASTACCT_ADD = 1, FASTACCT_REMOVE = 2 } fastacct_relation;

/* Bounds of epsilon at delta. */
int fastacct_epsilon(size_t n, const double *noise_multiplier, const double *sample_rate, const double *steps,
                     const double *delta, fastacct_relation relation, double *lower, double *upper, uint8_t *status);

/* Bounds of delta at epsilon. */
int fastacct_delta(size_t n, const double *noise_multiplier, const double *sample_rate, const double *steps,
                   const double *epsilon, fastacct_relation relation, double *lower, double *upper, uint8_t *status);

/* Bounds of the Renyi divergence of all steps at an order, the larger of both directions. */
int fastacct_rdp(size_t n, const double *noise_multiplier, const double *sample_rate, const double *steps,
                 const double *orders, double *lower, double *upper, uint8_t *status);

/* Smallest noise multiplier that is certified to satisfy (epsilon, delta): the upper bound of fastacct_epsilon at it is
 * at most `epsilon`, bit for bit, and at (1 - 1e-8) times it, it is not (where that bound is tight).  0 where no noise
 * is needed.  inf with FASTACCT_NOT_MET where none from 1e-6 to 1e12 is enough; else the status is FASTACCT_TIGHT. */
int fastacct_noise_multiplier(size_t n, const double *epsilon, const double *delta, const double *sample_rate,
                              const double *steps, fastacct_relation relation, double *noise_multiplier,
                              uint8_t *status);

/* FASTACCT_VERSION of the fastacct.c that was compiled. */
const char *fastacct_version(void);

/* What fastacct.c was compiled for: "baseline", "x86-64-v3" or "x86-64-v4".  The compiler is told by -march=x86-64-v3,
 * -march=x86-64-v4 or -march=native; a processor without these instructions then stops the program. */
const char *fastacct_instruction_set(void);

#ifdef __cplusplus
}
#endif

#endif
