/* kernels.h -- the C interface: one table of kernels per instruction-set level, chosen at import.
 *
 * A kernel computes cells that do not depend on each other: any split into calls gives the same bits, from any thread,
 * without the GIL.  Inputs are assumed valid (checked in Python): q in [0, 1], sigma in [0, inf], steps integers >= 0,
 * orders > 1, delta in [0, 1], eps >= 0.
 */
#ifndef FA_KERNELS_H
#define FA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "choices.h"

/* What is asked of all cells of a call. */
typedef struct {
    fa_quantity quantity;
    fa_ways ways;         /* exact: directions */
    fa_rule conversion;   /* Renyi: to (epsilon, delta) */
    const double *orders; /* Renyi: the only ones that are tried; NULL: all */
    int n_orders;
    fa_wanted wanted; /* calibration */
} fa_question;

/* n cells, column by column: what a kernel does not read may be NULL. */
typedef struct {
    int64_t n;
    const double *sigma, *q, *steps; /* a run of DP-SGD */
    const double *target; /* where it is evaluated: delta for epsilon, epsilon for delta, order for a divergence */
    const double *eps;    /* of a calibration, with delta as target; what it may be, of one that is asked about */
    const double *mu;     /* of a Gaussian N(mu, 1) against N(0, 1) */
    const double *off;    /* of a job without data: what the logarithms of deltas may be off by, either way; or NULL */
} fa_cells;

/* Where the answers of n cells go: what a kernel does not write may be NULL.  What it writes may not, but all that the
 * caller does not want may go to one place. */
typedef struct {
    double *lower, *upper; /* certified bounds; of a threshold: itself, and how fast the log of the rate falls there */
    double *slope;         /* d log delta/d epsilon at a delta read, NaN where not known */
    double *order;         /* at which Renyi DP found its bound */
    double *value;         /* of kernels that give one number; their status is FA_OK, but of calibration */
    uint8_t *status;       /* FA_OK, FA_LOOSE, FA_NOT_MET */
} fa_answers;

/* One job of several sampled Gaussians, or of mixtures.  Block b of a job: count, sigma, n_p components of P and n_q of
 * Q, in `weight` and `mean` one after the other; n_q = 0: sampled Gaussian, P's one component is (sample rate,
 * sensitivity); count = 0 is skipped. */
typedef struct {
    int n_blocks;
    const double *sigma, *q, *steps;
} fa_history;
/* Beside them losses that are data (loss/pieces.h): `times`, how many atoms and panels, and these, one row of numbers
 * each, one after the other. */
typedef struct {
    int n_blocks;
    const double *count, *sigma;
    const int32_t *n_p, *n_q;
    const double *weight, *mean;
    int n_data, mirrored; /* mirrored: each is its own mirror image */
    double spacing;       /* of a lattice that all differences of their losses are on; 0: none is known */
    const double *times;
    const int32_t *n_atoms, *n_panels;
    const double *atom, *panel;
    const int32_t *n_tables, *n_slices; /* panels of a table, and slices */
    const double *point, *slice, *missed;
    const double *smooth; /* four numbers each: fa_smooth, whose lattice the atoms are; step 0: they are none */
} fa_job;

/* Kernels whose cells may take long stop at the first one that they would begin more than `seconds` after the call.
 * All return how many cells are done (at least 1 of n), or FA_NO_MEMORY. */
#define FA_NO_MEMORY (-1)
typedef int64_t (*fa_kernel)(const fa_cells *in, const fa_question *ask, double seconds, const fa_answers *out);

typedef struct {
    const char *name;
    fa_kernel rdp;                          /* sigma, q, steps, target: lower, upper, status of steps * rdp(target) */
    fa_kernel renyi;                        /* sigma, q, steps, target: upper, order, status */
    fa_kernel exact;                        /* sigma, q, steps, target: lower, upper, slope, status */
    fa_kernel calibrate_renyi;              /* eps, target, two of sigma, q, steps: value of the third, status */
    fa_kernel calibrate_exact;              /* the same */
    fa_kernel gaussian_epsilon;             /* mu, target: value */
    fa_kernel gaussian_delta;               /* mu, target: value */
    fa_kernel basic_composition_epsilon;    /* sigma, q, steps, target: value */
    fa_kernel advanced_composition_epsilon; /* the same */
    fa_kernel clt_mu_approx;                /* sigma, q, steps: value; no bound */
    /* a job at the targets of `at`: as renyi and as exact */
    int64_t (*renyi_of_history)(const fa_history *run, const fa_cells *at, const fa_question *ask, double seconds,
                                const fa_answers *out);
    int64_t (*exact_job)(const fa_job *job, const fa_cells *at, const fa_question *ask, double seconds,
                         const fa_answers *out);
    /* K(u) = log E_P[exp(u loss)], K' and K'' at real u, six bounds a row, of Gaussians with one noise whose increasing
     * means have these weights in P and Q; the one at `origin` is heaviest in Q */
    void (*mixture_moments)(int components, const double *mean, const double *p, const double *q, int origin,
                            double sigma, int64_t n, const double *u, double *rows_out);
    /* the same of the first loss of a job that is data, of -loss under P (flipped); lost: mass of Q where P has none,
     * by how much that may be off, and by how much masses miss 1.  NaN: not known */
    void (*data_moments)(const fa_job *job, int is_flipped, const double *lost, int64_t n, const double *u,
                         double *rows_out);
    /* atoms of the loss of Gaussian noise in one of `steps` steps drawn at random, at most `room`; known_out: step,
     * window, and the mass of P and of Q that may be elsewhere.  How many; 0: too many */
    int (*allocation)(double sigma, int64_t steps, int room, double *rows_out, double *known_out);
} fa_kernels;

const fa_kernels *fa_kernels_baseline(void);
const fa_kernels *fa_kernels_v3(void); /* NULL where not built */
const fa_kernels *fa_kernels_v4(void);

/* the level named, or the best this processor has for NULL; NULL if it cannot run here */
const fa_kernels *fa_kernels_select(const char *name);

/* Memory and time (dispatch.c).  What is refused is remembered, thread by thread: a kernel deep below takes the safe
 * side without memory, and the block loop above turns that into FA_NO_MEMORY instead of an answer. */
void *fa_alloc(size_t size);
void *fa_alloc_zeroed(size_t size);
int fa_alloc_failed(void); /* whether an allocation of this thread was refused since the last call */
void fa_alloc_limit(
    int64_t n); /* for tests: this thread's next n allocations succeed, the others fail; < 0: no limit */
double fa_seconds(void); /* of a clock that only rises */

/* Who calls kernels in this thread may give up a call: what takes long asks now and then, and a call that is given up
 * ends as if memory were refused.  NULL: nobody is asked. */
void fa_ask(int (*is_given_up)(void));
int fa_goes_on(void); /* 0: given up, or without memory */

/* What this thread's kernels have done so far, in terms of sums of about a nanosecond: the same on every machine. */
void fa_count(double terms);
double fa_counted(void);

/* Two certified intervals of one number that do not meet (fa_share in num/interval.h): one of them is wrong. */
void fa_disagree(void);
int fa_disagreed(void); /* for tests: whether any did, in any thread, since the last call */

#endif
