/* ledgers.c -- log-moments and capped lines with budgets that starve one error after another, and the log-moment as the
 * search for orders sees it.
 */
#include "parts.h"

#include "exact/exact_job.h"
#include "once.h"

static fa_log_moment moment;

/* the log-moment K at one order, K', K'', uncertified */
void derivatives(double sigma, double rate, double order, double *out)
{
    double a = order - 1.0, one = 1.0;
    fa_run run = {.n = 1, .moment = &moment, .steps = &one, .log_a = NAN};
    fa_moment m;
    fa_log_moment_init(&moment, sigma, rate);
    fa_run_at(&run, a, &m, FA_SEARCH);
    out[0] = m.k;
    out[1] = m.d1 / a;
    out[2] = m.d2 / a / a;
}

/* K at one order, with a step so many times the usual one, this limit of near nodes, and what may be passed over
 * (renyi/quadrature.h); then errors of K by aliasing, what is left out, rounding of near and of far terms.  NAN: too
 * many nodes, or M overflows */
void log_moment(double sigma, double rate, double order, double step, double limit, double spare, double *out)
{
    fa_sgm mech;
    fa_sums s = {.reference = -INFINITY};
    double a = order - 1.0, omitted, far, m;
    out[0] = NAN;
    fa_sgm_init(&mech, sigma, rate);
    fa_sgm_lay(&mech, step * mech.h);
    if (!fa_sums_all(&mech, a, limit, spare, &s, &omitted))
        return;
    far = s.s0 > 0.0 ? mech.unit * s.s0 * exp(s.reference) : 0.0;
    m = s.e2 + a * s.kl + far;
    out[0] = m < INFINITY ? log1p(m) : NAN;
    out[1] = mech.alias * m / (1.0 + m);
    out[2] = omitted * exp(fa_shift(&s)) / (1.0 + m);
    out[3] = s.near / (1.0 + m);
    out[4] = far > 0.0 ? far * fa_far_error(&mech, &s, a) / (1.0 + m) : 0.0;
}

/* the pair of one step of a sampled Gaussian for a group of so many records, or for a record that is replaced (-1) */
static void pair_of(fa_pair *pair, double sigma, double q, int records)
{
    double p_weight[FA_COMPONENTS + 1], mean[FA_COMPONENTS + 1], q_weight[2] = {1.0 - q, q}, q_mean[2] = {0.0, -1.0};
    int i, k = records < 0 ? 1 : records;
    for (i = 0; i <= k; i++) {
        mean[i] = i;
        p_weight[i] = exp(lgamma(k + 1.0) - lgamma(i + 1.0) - lgamma(k - i + 1.0) + i * log(q) + (k - i) * log1p(-q));
    }
    q_weight[0] = records < 0 ? q_weight[0] : 1.0;
    fa_pair_mixture(pair, sigma, k + 1, p_weight, mean, records < 0 ? 2 : 1, q_weight, q_mean);
}

/* One capped line of n kinds of steps.  budget: tolerance, dead, need, cap_ratio, cap_back, left, right, floor (1: use
 * one; 2: that of few added steps), records (0: sampled Gaussians; k: of groups of k; -1: one is replaced).  out: log
 * delta, then relative to it the ledger's up, down, tail, quadrature, rounding, ends, closed, put, floor, alias.  NAN:
 * no line */
void line(double n_kinds, double mu2, double eps, const double *sigma, const double *rate, const double *steps,
          const double *budget, double *out)
{
    fa_cap_work work;
    fa_cap_effort effort = fa_cap_usual_effort();
    fa_cap_reading r;
    fa_cap_ledger g;
    fa_pair pairs[4];
    int ok, b, n = (int)n_kinds, records = (int)budget[8];
    memset(&work, 0, sizeof(work));
    effort.tolerance = budget[0];
    effort.dead = budget[1];
    effort.need = budget[2];
    effort.cap_ratio = budget[3];
    effort.cap_back = budget[4];
    effort.left = budget[5];
    effort.right = budget[6];
    ok = n <= (records ? 4 : FA_CAP_BLOCKS) && records <= FA_COMPONENTS && fa_cap_job_clear(&work.job, n);
    for (b = 0; b < n && ok; b++) {
        if (!records)
            fa_cap_job_add(&work.job, sigma[b], rate[b], steps[b]);
        else {
            pair_of(pairs + b, sigma[b], rate[b], records);
            fa_cap_job_add_pair(&work.job, pairs + b, steps[b]);
        }
    }
    work.job.mu2 = mu2;
    work.job.is_add = work.job.walled = budget[7] == 2.0;
    out[0] = NAN;
    if (ok && read_once(&work, eps, &effort, budget[7] != 0.0, &r, &g)) {
        double entries[] = {r.log_value, g.up,     g.down, g.tail,  g.quadrature, g.rounding,
                            g.ends,      g.closed, g.put,  g.floor, g.alias};
        memcpy(out, entries, sizeof(entries));
    }
    fa_cap_work_free(&work);
}
