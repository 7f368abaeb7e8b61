/* kernels_impl.h -- the block loops, compiled once per instruction-set level by isa_*.c, which define FA_LEVEL and
 * FA_LEVEL_NAME.
 *
 * Cells that follow each other with the same (sigma, q) share their nodes: grids should keep steps, delta and orders on
 * the fast axes. Sharing never changes a result (the grid of nodes depends on sigma alone, see renyi/log_moment.h).
 */
#include <float.h>
#include <stdlib.h>

#include "renyi/binomial_series.h"
#include "invert/calibrate.h"
#include "exact/classical.h"
#include "kernels.h"

#define FA_JOIN2(a, b) a##b
#define FA_JOIN(a, b)  FA_JOIN2(a, b)

/* measured: one series term costs about 60 ns, one streamed node about 10 ns */
#define FA_SERIES_NODES_PER_TERM 6.0

#define FA_ORDERS_AT_ONCE 32

/* whether the binomial series is cheaper than streaming nodes */
static int fa_series_is_cheaper(const fa_log_moment *lm, double a)
{
    double sigma = lm->mech.sigma, q = lm->mech.q;
    return a > lm->a_cap && a == floor(a) && q > 0.0 && q < 1.0 && sigma < FA_SIGMA_MAX && sigma > FA_SIGMA_MIN &&
           a < FA_SERIES_MAX_ORDER && a * a < FA_SERIES_MAX_EXPONENT * sigma * sigma &&
           (a + 1.0) * FA_SERIES_NODES_PER_TERM < fa_right_end(lm, a) / lm->mech.h;
}

/* up to FA_ORDERS_AT_ONCE orders of one (sigma, q) */
static void fa_rdp_orders(fa_log_moment *lm, int n, const double *order, const double *steps, double *lower_out,
                          double *upper_out, uint8_t *status_out)
{
    fa_sums sums[FA_ORDERS_AT_ONCE];
    fa_moment moment[FA_ORDERS_AT_ONCE];
    double omitted[FA_ORDERS_AT_ONCE];
    int done[FA_ORDERS_AT_ONCE], i;
    for (i = 0; i < n; i++) {
        double a = order[i] - 1.0;
        done[i] = 1;
        if (fa_series_is_cheaper(lm, a) && !fa_moment_sandwich(lm, a, moment + i))
            fa_series(lm->mech.sigma, lm->mech.q, order[i], moment + i);
        else
            done[i] = fa_moment_begin(lm, a, FA_BOUNDS, sums + i, omitted + i, moment + i);
    }
    for (i = 0; i < n; i++) {
        double a = order[i] - 1.0, count = steps[i] / a;
        if (!done[i])
            fa_moment_end(lm, sums + i, a, omitted[i], FA_BOUNDS, moment + i);
        fa_moment_finish(lm, a, moment + i);
        lower_out[i] = upper_out[i] = 0.0;
        status_out[i] = FA_OK;
        if (!(count > 0.0))
            continue;
        lower_out[i] = count * moment[i].lower * (1.0 - 4.0 * FA_EPS);
        upper_out[i] = count * moment[i].upper * (1.0 + 4.0 * FA_EPS);
        status_out[i] = (uint8_t)moment[i].status;
        if (!(upper_out[i] <= DBL_MAX)) { /* overflow: the safe side */
            upper_out[i] = INFINITY;
            status_out[i] = FA_NOT_MET;
        }
        if (lm->mech.sigma > 0.0 && !(lower_out[i] <= DBL_MAX))
            lower_out[i] = lower_out[i] > 0.0 ? DBL_MAX : 0.0;
    }
}

static void fa_rdp_block(int64_t n, const double *sigma, const double *q, const double *order, const double *steps,
                         double *lower_out, double *upper_out, uint8_t *status_out)
{
    fa_log_moment lm;
    int64_t i, j, k;
    for (i = 0; i < n; i = j) {
        double top = 0.0;
        for (j = i; j < n && sigma[j] == sigma[i] && q[j] == q[i]; j++)
            top = fa_max(top, order[j] - 1.0);
        fa_log_moment_init(&lm, sigma[i], q[i]);
        if (lm.a_limit > 0.0)
            fa_log_moment_cache(&lm, fa_min(fa_max(top, 1.0), lm.a_limit));
        for (k = i; k < j; k += FA_ORDERS_AT_ONCE)
            fa_rdp_orders(&lm, j - k < FA_ORDERS_AT_ONCE ? (int)(j - k) : FA_ORDERS_AT_ONCE, order + k, steps + k,
                          lower_out + k, upper_out + k, status_out + k);
    }
}

static void fa_rdp_series_block(int64_t n, const double *sigma, const double *q, const double *order, double *lower_out,
                                double *upper_out, uint8_t *status_out)
{
    int64_t i;
    for (i = 0; i < n; i++) {
        fa_log_moment lm;
        fa_moment m;
        double a = order[i] - 1.0;
        fa_log_moment_init(&lm, sigma[i], q[i]);
        fa_series(sigma[i], q[i], order[i], &m);
        fa_moment_finish(&lm, a, &m);
        lower_out[i] = m.lower / a * (1.0 - 2.0 * FA_EPS);
        upper_out[i] = m.upper / a * (1.0 + 2.0 * FA_EPS);
        status_out[i] = (uint8_t)m.status;
    }
}

static void fa_readout_run(fa_run *run, double target, int for_delta, int conversion, const double *orders,
                           int n_orders, double *out, double *order_out, uint8_t *status_out)
{
    int status;
    run->log_a = NAN; /* cold start: the answer must not depend on the cell before */
    if (for_delta)
        *out = fa_run_delta(run, target, (fa_conversion)conversion, orders, n_orders, order_out, &status);
    else
        *out = fa_max(0.0,
                      fa_run_epsilon(run, target, (fa_conversion)conversion, orders, n_orders, order_out, &status));
    *status_out = (uint8_t)status;
}

static void fa_readout_block(int64_t n, const double *sigma, const double *q, const double *steps, const double *target,
                             int for_delta, int conversion, const double *orders, int n_orders, double *out,
                             double *order_out, uint8_t *status_out)
{
    fa_log_moment lm;
    int64_t i;
    for (i = 0; i < n; i++) {
        fa_run run = {1, &lm, steps + i, NAN};
        if (i == 0 || sigma[i] != sigma[i - 1] || q[i] != q[i - 1])
            fa_log_moment_init(&lm, sigma[i], q[i]);
        fa_readout_run(&run, target[i], for_delta, conversion, orders, n_orders, out + i, order_out + i,
                       status_out + i);
    }
}

/* whether the time of a call is up: never before its first cell is done */
static int fa_is_late(int64_t i, double end) { return i > 0 && end < INFINITY && fa_seconds() > end; }

static int64_t fa_history_readout(int n_blocks, const double *sigma, const double *q, const double *steps, int64_t n,
                                  const double *target, int for_delta, int conversion, const double *orders,
                                  int n_orders, double seconds, double *out, double *order_out, uint8_t *status_out)
{
    double end = fa_seconds() + seconds;
    fa_log_moment *moment = fa_alloc(sizeof(fa_log_moment) * (size_t)(n_blocks > 0 ? n_blocks : 1));
    fa_run run = {n_blocks, moment, steps, NAN};
    int64_t i;
    int b;
    if (!moment)
        return FA_NO_MEMORY;
    for (b = 0; b < n_blocks; b++)
        fa_log_moment_init(moment + b, sigma[b], q[b]);
    for (i = 0; i < n && !fa_is_late(i, end); i++)
        fa_readout_run(&run, target[i], for_delta, conversion, orders, n_orders, out + i, order_out + i,
                       status_out + i);
    free(moment);
    return i;
}

static void fa_calibrate_block(int64_t n, int solve_for, const double *eps, const double *delta, const double *a,
                               const double *b, int conversion, const double *orders, int n_orders, double *out,
                               uint8_t *status_out)
{
    fa_log_moment lm;
    int64_t i;
    for (i = 0; i < n; i++) {
        fa_target t = {
            &lm, (fa_conversion)conversion, orders, n_orders, a[i], a[i], b[i], delta[i], eps[i], 0, NAN, 0, 0, 0, 0,
            0.0};
        int status;
        if (solve_for == 0)
            out[i] = fa_noise_multiplier(&t, &status);
        else if (solve_for == 1)
            out[i] = fa_sample_rate(&t, &status);
        else {
            t.q = b[i];
            out[i] = fa_max_steps(&t, &status);
        }
        status_out[i] = (uint8_t)status;
    }
}

static int64_t fa_exact_block(int64_t n, const double *sigma, const double *q, const double *steps,
                              const double *target, int what, int directions, double seconds, double *lower_out,
                              double *upper_out, double *slope_out, uint8_t *status_out)
{
    fa_exact e;
    double end = seconds < INFINITY ? fa_seconds() + seconds : INFINITY;
    int64_t i;
    (void)fa_alloc_failed();
    if (!fa_exact_init(&e, 1, directions, FA_POINTS_MAX))
        return FA_NO_MEMORY;
    for (i = 0; i < n && !fa_is_late(i, end); i++) {
        if (slope_out)
            slope_out[i] = NAN;
        if (!(q[i] > 0.0) || !(steps[i] > 0.0) || sigma[i] == INFINITY) { /* nothing is released */
            lower_out[i] = upper_out[i] = what == FA_READ_LOG_DELTA ? -INFINITY : 0.0;
            status_out[i] = FA_OK;
            continue;
        }
        if (!(sigma[i] > 0.0)) { /* no noise: the safe side */
            int trivial = what == FA_READ_EPSILON ? target[i] >= 1.0 : target[i] == INFINITY;
            lower_out[i] = what == FA_READ_LOG_DELTA ? -INFINITY : 0.0;
            upper_out[i] = trivial                   ? lower_out[i]
                           : what == FA_READ_EPSILON ? INFINITY
                           : what == FA_READ_DELTA   ? 1.0
                                                     : 0.0;
            status_out[i] = trivial ? FA_OK : FA_NOT_MET;
            continue;
        }
        if (i && what == FA_READ_EPSILON && e.sigma == sigma[i] && e.q == q[i] && e.steps == steps[i])
            fa_exact_again(&e);
        else
            fa_exact_set(&e, sigma[i], q[i], steps[i]);
        status_out[i] = (uint8_t)fa_exact_read(&e, target[i], (fa_read)what, lower_out + i, upper_out + i);
        if (slope_out)
            slope_out[i] = e.slope;
        if (fa_alloc_failed()) {
            i = FA_NO_MEMORY;
            break;
        }
    }
    fa_exact_free(&e);
    return i;
}

/* the blocks of a job; 0: nothing is released.  `many`: only sampled Gaussians are expected, and they go there */
static int fa_job_blocks(fa_exact *e, fa_many *many, int n_blocks, const double *count, const double *sigma,
                         const int32_t *n_p, const int32_t *n_q, const double *weight, const double *mean)
{
    int b, d, used = 0, mirror = 1, lone = 0;
    double total = 0.0;
    fa_dd add_end = {0.0, 0.0};
    fa_dd mu2 = {0.0, 0.0}; /* 50,000 different Gaussians lose no digit */
    for (b = 0; b < n_blocks; weight += n_p[b] + n_q[b], mean += n_p[b] + n_q[b], b++) {
        fa_pair pair;
        if (!(count[b] > 0.0) || sigma[b] == INFINITY || (n_q[b] == 0 && !(weight[0] > 0.0)))
            continue;
        if (n_q[b] == 0 && weight[0] < 1.0) {
            if (many)
                fa_many_add(many, sigma[b] / mean[0], weight[0], count[b]);
            else
                fa_pair_sampled(&pair, sigma[b] / mean[0], weight[0]);
            add_end = add_end.hi < INFINITY ? fa_dd_add_d(add_end, -count[b] * log1p(-weight[0])) : add_end;
        }
        else if (n_q[b] == 0 || (n_p[b] == 1 && n_q[b] == 1)) {
            double m = (mean[0] - (n_q[b] ? mean[1] : 0.0)) / sigma[b];
            mu2 = fa_dd_add(mu2, fa_dd_mul_d(fa_two_prod(m, m), count[b]));
            add_end = fa_dd_make(INFINITY, 0.0);
            lone = 1;
            continue;
        }
        else {
            fa_pair_mixture(&pair, sigma[b], n_p[b], weight, mean, n_q[b], weight + n_p[b], mean + n_p[b]);
            mirror &= pair.symmetric;
            add_end = n_q[b] == 1 && mean[0] == mean[n_p[b]] && add_end.hi < INFINITY
                          ? fa_dd_add_d(add_end, -count[b] * pair.kappa)
                          : fa_dd_make(INFINITY, 0.0);
        }
        if (n_q[b] == 0)
            mirror = 0;
        for (d = 0; d < 2 && !many; d++) {
            e->way[d].blocks[used].pair = pair;
            e->way[d].blocks[used].count = count[b];
        }
        total += count[b];
        used++;
    }
    e->add_end = add_end.hi;
    if (many)
        return fa_many_ready(many, lone ? fa_max(mu2.hi, 1e-306) : mu2.hi, add_end.hi);
    for (d = 0; d < 2; d++) {
        e->way[d].n_blocks = used;
        e->way[d].mu2 = lone ? fa_max(mu2.hi, 1e-306) : mu2.hi; /* more than nothing */
        e->way[d].total = total;
        fa_contour_reset(e->way + d);
    }
    e->symmetric = mirror;
    e->only_gaussian = used == 0 && lone;
    return used > 0 || lone;
}

#define FA_NOT_DONE 255

/* a job of very many sampled Gaussians, where the pass over all steps certifies it: status FA_NOT_DONE elsewhere */
static int64_t fa_exact_many(int n_blocks, const double *count, const double *sigma, const int32_t *n_p,
                             const int32_t *n_q, const double *weight, const double *mean, int64_t n,
                             const double *target, int what, int directions, double end, double *lower_out,
                             double *upper_out, double *slope_out, uint8_t *status_out)
{
    fa_exact e;
    int64_t i;
    int ready;
    memset(status_out, FA_NOT_DONE, (size_t)n);
    if (!fa_exact_init(&e, 1, directions, FA_POINTS_MAX))
        return FA_NO_MEMORY;
    e.way[0].n_blocks = e.way[1].n_blocks = 0;
    e.many = fa_many_new(n_blocks, directions, FA_POINTS_MAX);
    ready = e.many && fa_job_blocks(&e, e.many, n_blocks, count, sigma, n_p, n_q, weight, mean);
    for (i = 0; i < n && ready && !fa_is_late(i, end); i++) {
        int status;
        e.refused = 0;
        status = fa_exact_read(&e, target[i], (fa_read)what, lower_out + i, upper_out + i);
        if (slope_out)
            slope_out[i] = e.slope;
        status_out[i] = (uint8_t)(e.refused ? FA_NOT_DONE : status);
    }
    fa_many_free(e.many);
    fa_exact_free(&e);
    return fa_alloc_failed() ? FA_NO_MEMORY : ready ? i : n;
}

static int64_t fa_exact_job(int n_blocks, const double *count, const double *sigma, const int32_t *n_p,
                            const int32_t *n_q, const double *weight, const double *mean, int64_t n,
                            const double *target, int what, int directions, double seconds, double *lower_out,
                            double *upper_out, double *slope_out, uint8_t *status_out)
{
    fa_exact e;
    double end = fa_seconds() + seconds;
    int64_t i, done = 0;
    int b, d, released, many = n_blocks >= FA_MANY_LEAST;
    for (b = 0; b < n_blocks && many; b++)
        many = n_q[b] == 0;
    (void)fa_alloc_failed();
    if (many)
        n = fa_exact_many(n_blocks, count, sigma, n_p, n_q, weight, mean, n, target, what, directions, end, lower_out,
                          upper_out, slope_out, status_out);
    if (n < 0)
        return n;
    for (i = 0; i < n && many; i++)
        done += status_out[i] != FA_NOT_DONE;
    if (done == n)
        return n;
    if (!fa_exact_init(&e, n_blocks, directions, FA_POINTS_MAX))
        return FA_NO_MEMORY;
    released = fa_job_blocks(&e, 0, n_blocks, count, sigma, n_p, n_q, weight, mean);
    for (i = 0; i < n && !fa_is_late(i, end); i++) {
        if (many && status_out[i] != FA_NOT_DONE)
            continue;
        if (slope_out)
            slope_out[i] = NAN;
        if (!released) {
            lower_out[i] = upper_out[i] = what == FA_READ_LOG_DELTA ? -INFINITY : 0.0;
            status_out[i] = FA_OK;
            continue;
        }
        fa_exact_again(&e);
        status_out[i] = (uint8_t)fa_exact_read(&e, target[i], (fa_read)what, lower_out + i, upper_out + i);
        if (slope_out)
            slope_out[i] = e.slope;
        if (fa_alloc_failed()) {
            i = FA_NO_MEMORY;
            break;
        }
    }
    for (d = 0; d < 2; d++)
        e.way[d].n_blocks = n_blocks;
    fa_exact_free(&e);
    return i;
}

static int64_t fa_exact_calibrate_block(int64_t n, int solve_for, const double *eps, const double *delta,
                                        const double *a, const double *b, int directions, double seconds, double *out,
                                        uint8_t *status_out)
{
    fa_exact e;
    double end = fa_seconds() + seconds;
    int64_t i;
    (void)fa_alloc_failed();
    if (!fa_exact_init(&e, 1, directions, FA_POINTS_MAX))
        return FA_NO_MEMORY;
    for (i = 0; i < n && !fa_is_late(i, end); i++) {
        fa_target t = {e.moment, FA_CKS, 0, 0, a[i], a[i], b[i], delta[i], eps[i], 0, NAN, &e, 1, 0, 0, 0.0};
        int status;
        if (solve_for == 0)
            out[i] = fa_noise_multiplier(&t, &status);
        else if (solve_for == 1)
            out[i] = fa_sample_rate(&t, &status);
        else {
            t.q = b[i];
            t.quick = 0;
            out[i] = fa_max_steps_exact(&t, &status);
        }
        status_out[i] = (uint8_t)status;
        if (fa_alloc_failed()) {
            i = FA_NO_MEMORY;
            break;
        }
    }
    fa_exact_free(&e);
    return i;
}

static void fa_log_moment_block(int64_t n, const double *sigma, const double *q, const double *order, double *k_out,
                                double *d1_out, double *d2_out)
{
    fa_log_moment lm;
    int64_t i;
    for (i = 0; i < n; i++) {
        double a = order[i] - 1.0, one = 1.0;
        fa_run run = {1, &lm, &one, NAN};
        fa_moment m;
        fa_log_moment_init(&lm, sigma[i], q[i]);
        fa_run_at(&run, a, &m, FA_SEARCH);
        k_out[i] = m.k;
        d1_out[i] = m.d1 / a;
        d2_out[i] = m.d2 / a / a;
    }
}

static void fa_classical_epsilon_block(int64_t n, int rule, const double *a, const double *b, const double *c,
                                       const double *delta, double *out)
{
    int64_t i;
    for (i = 0; i < n; i++) {
        if (rule == 0)
            out[i] = delta[i] >= 1.0 || !(a[i] > 0.0) ? 0.0 : fa_gaussian_epsilon(a[i], log(delta[i]));
        else
            out[i] = rule == 1 ? fa_basic_epsilon(a[i], b[i], c[i], delta[i])
                               : fa_advanced_epsilon(a[i], b[i], c[i], delta[i]);
        if (!(out[i] >= 0.0))
            out[i] = INFINITY;
    }
}

static void fa_gaussian_delta_block(int64_t n, const double *mu, const double *eps, double *out)
{
    int64_t i;
    for (i = 0; i < n; i++) {
        double d = !(mu[i] > 0.0) || eps[i] == INFINITY
                       ? 0.0
                       : exp(fa_gaussian_log_delta(mu[i], eps[i])) * (1.0 + 4.0 * FA_EPS) + 0x1p-1074;
        out[i] = d <= 1.0 ? d : 1.0;
    }
}

static void fa_clt_mu_approx_block(int64_t n, const double *sigma, const double *q, const double *steps, double *out)
{
    int64_t i;
    for (i = 0; i < n; i++)
        out[i] = q[i] > 0.0 && steps[i] > 0.0 ? fa_clt_mu_approx(sigma[i], q[i], steps[i]) : 0.0;
}

static int fa_capped_line(double sigma, double q, double steps, double eps, const double *budget, double *out)
{
    fa_cap_work work;
    fa_cap_job job;
    fa_cap_effort effort = fa_cap_usual_effort();
    fa_cap_reading r;
    fa_cap_ledger g;
    int ok;
    memset(&work, 0, sizeof(work));
    effort.tolerance = budget[0];
    effort.dead = budget[1];
    effort.need = budget[2];
    effort.cap_ratio = budget[3];
    effort.cap_back = budget[4];
    effort.left = budget[5];
    fa_cap_job_set(&job, sigma, q, steps);
    ok = fa_cap_read_once(&job, &work, eps, &effort, budget[6] != 0.0, &r, &g);
    if (ok) {
        double entries[] = {r.log_value, g.up,     g.down, g.tail,  g.quadrature, g.rounding,
                            g.ends,      g.closed, g.put,  g.floor, g.alias};
        memcpy(out, entries, sizeof(entries));
    }
    fa_cap_work_free(&work);
    return ok;
}

const fa_kernels *FA_JOIN(fa_kernels_, FA_LEVEL)(void)
{
    static const fa_kernels table = {
        FA_LEVEL_NAME,           fa_rdp_block,       fa_rdp_series_block, fa_readout_block,
        fa_calibrate_block,      fa_history_readout, fa_log_moment_block, fa_classical_epsilon_block,
        fa_gaussian_delta_block, fa_exact_block,     fa_exact_job,        fa_exact_calibrate_block,
        fa_clt_mu_approx_block,  fa_capped_line};
    return &table;
}
