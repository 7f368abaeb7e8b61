/* kernels.h -- the C interface: one table of functions per instruction-set level, chosen at import.
 *
 * Every function works on n independent cells and may be called from any thread without the GIL.  Cells are computed
 * independently of each other: any split into calls gives the same bits.  Functions that return int64_t may take long:
 * they stop at the first cell that they would begin more than `seconds` after the call and return how many cells are
 * done (at least 1 of n), or FA_NO_MEMORY. Inputs are assumed valid (checked in Python): q in [0, 1], sigma in [0,
 * inf], steps integers >= 0, orders > 1, delta in [0, 1], eps >= 0.
 */
#ifndef FA_KERNELS_H
#define FA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define FA_NO_MEMORY (-1)

typedef struct {
    const char *name;
    /* steps * rdp(order): certified lower and upper bounds */
    void (*rdp_block)(int64_t n, const double *sigma, const double *q, const double *order, const double *steps,
                      double *lower_out, double *upper_out, uint8_t *status_out);
    /* integer orders by the binomial series alone, for tests and accuracy tables */
    void (*rdp_series_block)(int64_t n, const double *sigma, const double *q, const double *order, double *lower_out,
                             double *upper_out, uint8_t *status_out);
    /* epsilon, or delta when for_delta: upper bound and the order it was found at; orders NULL: continuous search */
    void (*readout_block)(int64_t n, const double *sigma, const double *q, const double *steps, const double *target,
                          int for_delta, int conversion, const double *orders, int n_orders, double *out,
                          double *order_out, uint8_t *status_out);
    /* calibration: solve_for 0 noise multiplier (a = q, b = steps), 1 sample rate (a = sigma, b = steps), 2 steps (a =
     * sigma, b = q) */
    void (*calibrate_block)(int64_t n, int solve_for, const double *eps, const double *delta, const double *a,
                            const double *b, int conversion, const double *orders, int n_orders, double *out,
                            uint8_t *status_out);
    /* one heterogeneous run of n_blocks (sigma, q, steps) at n targets */
    int64_t (*history_readout)(int n_blocks, const double *sigma, const double *q, const double *steps, int64_t n,
                               const double *target, int for_delta, int conversion, const double *orders, int n_orders,
                               double seconds, double *out, double *order_out, uint8_t *status_out);
    /* log-moment K, K', K'' with respect to the order, uncertified: what the order search sees */
    void (*log_moment_block)(int64_t n, const double *sigma, const double *q, const double *order, double *k_out,
                             double *d1_out, double *d2_out);
    /* rule 0 analytic Gaussian (a = mu), 1 basic, 2 advanced (a = sigma, b = q, c = steps): epsilon at delta */
    void (*classical_epsilon_block)(int64_t n, int rule, const double *a, const double *b, const double *c,
                                    const double *delta, double *out);
    void (*gaussian_delta_block)(int64_t n, const double *mu, const double *eps, double *out);
    /* the exact accountant: what 0 epsilon, 1 delta, 2 log delta; directions 1 add, 2 remove, 3 the larger; slope_out
     * (or NULL): d log delta/d epsilon at a delta read, NaN where not known */
    int64_t (*exact_block)(int64_t n, const double *sigma, const double *q, const double *steps, const double *target,
                           int what, int directions, double seconds, double *lower_out, double *upper_out,
                           double *slope_out, uint8_t *status_out);
    /* one job of mixtures at n targets.  Block b: count, sigma, n_p components of P and n_q of Q, in `weight` and
     * `mean` one after the other; n_q = 0: sampled Gaussian, P's one component is (sample rate, sensitivity); count = 0
     * is skipped */
    int64_t (*exact_job)(int n_blocks, const double *count, const double *sigma, const int32_t *n_p, const int32_t *n_q,
                         const double *weight, const double *mean, int64_t n, const double *target, int what,
                         int directions, double seconds, double *lower_out, double *upper_out, double *slope_out,
                         uint8_t *status_out);
    /* as calibrate_block, with the exact accountant */
    int64_t (*exact_calibrate_block)(int64_t n, int solve_for, const double *eps, const double *delta, const double *a,
                                     const double *b, int directions, double seconds, double *out, uint8_t *status_out);
    void (*clt_mu_approx_block)(int64_t n, const double *sigma, const double *q, const double *steps, double *out);
    /* one capped line with a budget of one's own, to check its ledger: budget is tolerance, dead, need, cap_ratio,
     * cap_back, left, floor (1: use one); out is log delta, then relative to it the ledger's up, down, tail,
     * quadrature, rounding, ends, closed, put, floor, alias.  0: no line */
    int (*capped_line)(double sigma, double q, double steps, double eps, const double *budget, double *out);
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
    int64_t n);          /* for tests: this thread's next n allocations succeed, the others fail; < 0: no limit */
double fa_seconds(void); /* of a clock that only rises */

#endif
