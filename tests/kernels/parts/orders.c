/* orders.c -- series of E_Q[(dP/dQ)^(1+a)] - 1 in the order (renyi/leaves.h), over leaves that may be too wide.
 */
#include "parts.h"

#define FA_LEAF_LEDGER INFINITY
#include "renyi/cells.h"

/* M - 1 at 1 + a by the series of the leaf from `begin` on, `radius` wide (a power of 2, so that a is met), what it is
 * off by at most, and the epsilon of so many steps at log delta = -target, certified.  NAN: there is no series */
void series(double sigma, double rate, double begin, double radius, double a, double steps, double target, double *out)
{
    fa_log_moment *lm = malloc(sizeof(*lm));
    fa_leaf *leaf = calloc(1, sizeof(*leaf));
    fa_sides ask = {0, 1.0};
    double t[FA_LANES], value[FA_LANES], order[FA_LANES], m = 0.0;
    int k;
    out[0] = out[1] = out[2] = NAN;
    fa_log_moment_init(lm, sigma, rate);
    if (begin + radius < lm->a_limit) {
        fa_log_moment_cache(lm, begin + radius);
        leaf->begin = begin, leaf->radius = radius;
        for (k = 0; k < FA_LANES; k++)
            t[k] = (a - begin) / radius, leaf->waiting.steps[k] = steps, leaf->waiting.target[k] = target;
        fa_leaf_fill(lm, leaf, ask);
        for (k = FA_TERMS - 1; k >= 0; k--)
            m = m * t[0] + leaf->coefficient[k];
        fa_leaf_answer(leaf, ask, t, value, order);
        if (leaf->relative < INFINITY && order[0] == a)
            out[0] = m, out[1] = leaf->relative, out[2] = value[0];
    }
    free(leaf);
    free(lm);
}
