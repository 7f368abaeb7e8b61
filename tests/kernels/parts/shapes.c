/* shapes.c -- losses as data: which pairs of mixtures are the same in both directions, what a lattice does not see, and
 * what panels of a table miss.
 */
#include "parts.h"

#include "loss/mixtures.h"
#include "loss/smooth.h"

/* two components a side, P's first mean 0, Q's the negative ones: whether both directions coincide; the loss at x, and
 * that of the pair turned round */
void turned(double sigma, double p, double a, double q, double b, double x, double *out)
{
    double pw[2] = {1.0 - p, p}, pm[2] = {0.0, a}, qw[2] = {1.0 - q, q}, qm[2] = {0.0, -b}, above, below,
           range = a > b ? a : b;
    fa_pair m;
    fa_pair_mixture(&m, sigma, 2, pw, pm, 2, qw, qm);
    out[0] = m.symmetric;
    out[1] = m.kappa + fa_pair_loss(&m, x / range, &above, &below);
    fa_pair_flip(&m, sigma, 2, pw, pm, 2, qw, qm);
    out[2] = m.kappa + fa_pair_loss(&m, x / range, &above, &below);
}

/* log of the bound of |E[e^(uL)]| at Im u >= t of a lattice of n points, and what its sum is off by for |Im u| <= t */
void lattice(double noise, double count, double step, double high, double n, double v, double t, const double *loss,
             const double *log_weight, double *out)
{
    static fa_atom at[4096];
    fa_smooth s = {noise, count, step, high};
    fa_edge none;
    int j;
    memset(&none, 0, sizeof(none));
    for (j = 0; j < (int)n; j++)
        at[j] = (fa_atom){loss[j], log_weight[j], 0.0, 0.0};
    out[0] = fa_smooth_majorant(&s, at, (int)n, v, t, &none);
    out[1] = fa_smooth_alias(&s, at, (int)n, v, t, &none);
}

/* error of E[e^(vL)] of one panel with equal points of this loss and weight, of whose mass some is missed */
void panel(double loss, double log_weight, double missed, double v, double *out)
{
    fa_atom at[FA_TABLE_ROW];
    fa_table table = {1, 0, at, NULL, missed};
    int j;
    for (j = 0; j < FA_TABLE_ROW; j++)
        at[j] = (fa_atom){loss, log_weight - log(j < FA_TABLE_TEN ? 10.0 : 6.0), 0.0, 0.0};
    out[0] = fa_table_error(&table, v, 0.0, 0.0, 0, 0);
}
