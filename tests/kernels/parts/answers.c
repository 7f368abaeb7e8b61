/* answers.c -- certified answers for runs of DP-SGD as a caller gets them (exact/exact_readout.h), and the parameters
 * that meet a target (invert/).
 */
#include "parts.h"

#include "exact/blocks.h"
#include "invert/blocks.h"

static fa_log_moment moment;

/* bounds of epsilon at delta, from a cold start; by Renyi DP the upper one alone.  ways: as fa_ways */
void epsilon(double is_exact, double ways, double sigma, double rate, double steps, double delta, double *out)
{
    fa_exact e;
    out[0] = out[1] = NAN;
    if (!is_exact) {
        fa_renyi_ask ask = {0, FA_RULE_CKS, NULL, 0};
        double order;
        int status;
        fa_log_moment_init(&moment, sigma, rate);
        out[1] = fa_cell_epsilon(&moment, steps, delta, &ask, &order, &status);
    }
    else if (fa_exact_init(&e, (int)ways)) {
        fa_exact_set(&e, sigma, rate, steps);
        fa_exact_read(&e, delta, FA_GIVE_EPSILON, out, out + 1);
        fa_exact_free(&e);
    }
}

/* bounds of delta at epsilon, bounds of its log, and whether Chernoff's bound says at once that it is no double */
void delta(double ways, double sigma, double rate, double steps, double eps, double *out)
{
    fa_exact e;
    out[0] = out[1] = out[2] = out[3] = out[4] = NAN;
    if (fa_exact_init(&e, (int)ways)) {
        fa_exact_set(&e, sigma, rate, steps);
        fa_exact_read(&e, eps, FA_GIVE_DELTA, out, out + 1);
        fa_exact_read(&e, eps, FA_GIVE_LOG_DELTA, out + 2, out + 3);
        out[4] = fa_is_nothing(&e, eps);
        fa_exact_free(&e);
    }
}

/* the noise (0), rate (1) or number of steps (2) that meets a target, and its status */
void calibrated(double wanted, double is_exact, double ways, double sigma, double rate, double steps, double delta,
                double eps, double *out)
{
    fa_exact e;
    fa_target t = {.sigma = sigma, .q = rate, .steps = steps, .wanted = (fa_wanted)wanted, .delta = delta, .eps = eps};
    int status = -1;
    out[0] = NAN;
    t.moment = &moment;
    t.renyi = (fa_renyi_ask){0, FA_RULE_CKS, NULL, 0};
    if (is_exact && fa_exact_init(&e, (int)ways)) {
        t.exact = &e;
        out[0] = fa_calibrate(&t, &status);
        fa_exact_free(&e);
    }
    else if (!is_exact)
        out[0] = fa_calibrate(&t, &status);
    out[1] = status;
}

/* log of a bound of delta at every epsilon, and bounds of log delta at 0 */
void at_zero(double sigma, double rate, double steps, double *out)
{
    fa_exact e;
    out[0] = out[1] = out[2] = NAN;
    if (fa_exact_init(&e, FA_WAYS_BOTH)) {
        fa_interval r;
        fa_exact_set(&e, sigma, rate, steps);
        out[0] = fa_participation(&e);
        r = fa_exact_log_delta(&e, 0.0);
        out[1] = r.lower, out[2] = r.upper;
        fa_exact_free(&e);
    }
}

/* bounds of epsilon at delta and of delta at eps of so many mixtures of normal distributions: weights and means of P's
 * component, and of the two of Q */
void mixtures(double ways, double count, double sigma, double delta, double eps, const double *weight,
              const double *mean, double *out)
{
    int32_t n_p = 1, n_q = 2, none = 0;
    fa_job job = {.n_blocks = 1, .count = &count, .sigma = &sigma, .n_p = &n_p, .n_q = &n_q, .weight = weight,
                  .mean = mean, .n_tables = &none, .n_slices = &none};
    fa_quantity what[2] = {FA_GIVE_EPSILON, FA_GIVE_DELTA};
    int i;
    for (i = 0; i < 2; i++) {
        fa_cells at = {.n = 1, .target = i ? &eps : &delta};
        fa_question ask = {.quantity = what[i], .ways = (fa_ways)ways};
        double slope;
        uint8_t status;
        fa_answers answers = {.lower = out + 2 * i, .upper = out + 2 * i + 1, .slope = &slope, .status = &status};
        (void)fa_exact_job(&job, &at, &ask, 1e9, &answers);
    }
}

/* the ledger of an answer at eps0, moved by `by` while log delta moves by `change`: up and down, of entries that are
 * tail, quadrature, rounding, put, floor, rare and alias; no job.  rates: of put, the line's c, left, right and low */
void moved(double eps0, double by, double change, const double *entry, const double *rates, double *out)
{
    static fa_cap_work work;
    fa_cap_answer a;
    fa_cap_ledger g;
    memset(&work, 0, sizeof(work));
    memset(&a, 0, sizeof(a));
    work.line.plan.c = rates[1], work.line.plan.left = rates[2], work.line.plan.right = rates[3];
    work.line.plan.low = rates[4];
    a.eps = eps0;
    a.r.log_value = -10.0;
    a.g.tail = entry[0], a.g.quadrature = entry[1], a.g.rounding = entry[2], a.g.put = entry[3];
    a.g.floor = entry[4], a.g.rare = entry[5], a.g.alias = entry[6], a.g.put_rate = rates[0];
    g = fa_cap_move_ledger(&work, &a, eps0 + by, -10.0 + change);
    out[0] = g.up, out[1] = g.down;
}
