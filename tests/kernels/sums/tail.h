/* tail.h -- the tail of a capped line: its bound beyond the last point, and what its curve has left of the nodes. */
#include "rise.h"

/* |F u (u-1)| at points beyond the last, in logarithms */
static void check_tail(drawn *d)
{
    static const double further[] = {1.0, 1.02, 1.1, 1.3, 2.0, 3.5};
    double t = (d->work.line.n - 1) * d->p->h,
           bound = fa_cap_log_beyond(&d->work.job, &d->work.line, d->at.eps, t, 1.0, 1.0);
    ld n = d->at.steps, furthest = loss_at(&d->law, d->b->nodes.z[d->b->nodes.sum.n - 1]); /* few digits in 80 bits */
    int i;
    for (i = 0; i < 6; i++) {
        lc u = d->tilt + (lc)I * (t * (ld)further[i]), b0 = whole(&d->law, d->b, KEEP, u, 0, d->shift);
        ld size = n * logl(cabsl(b0)), at_c = creall(whole(&d->law, d->b, KEEP, d->tilt, 0, d->shift));
        if (!(cabsl(b0) > 1e-15L * at_c)) /* 80 bits have no digits left */
            break;
        if (d->b->split) {
            lc large = whole(&d->law, d->b, LARGE, u, 0, d->shift), low = (b0 - large) / b0;
            if (!(cabsl(large) > 1e-14L * at_c))
                break;
            size += logl(cabsl(power(n * (logl(cabsl(low)) + (lc)I * cargl(low)), 1)));
        }
        size += n * d->tilt * (ld)d->b->nodes.mean - (d->c - 1.0L) * d->at.eps;
        compare(d, "tail", expl(size - bound), 1.0L, 1e-9L + n * 2e-19L * cabsl(u) * furthest * at_c / cabsl(b0));
    }
}

/* what the tail's curve has left of the nodes, its rise and turn as fa_cap_majorant has them */
static void check_left_of_nodes(drawn *d)
{
    static const double further[] = {1.0, 1.3, 3.5};
    const fa_cap_nodes *s = &d->b->nodes;
    ld s2 = (ld)d->at.noise * d->at.noise, x0 = d->b->log_odds + (s->z[0] - 0.5L) / s2, dx = 0.02L / d->at.noise;
    int i, j;
    for (i = 0; i < 3; i++) {
        double t = (d->work.line.n - 1) * d->p->h * further[i];
        fa_cap_curve curve =
            fa_cap_curve_of(d->b, &d->work.line, t, fa_cap_curve_top(d->b, &d->work.line, t, 1.0), 1.0);
        double risen = exp(fa_min(curve.at, 300.0));
        ld sum = 0.0L, first = 0.0L;
        for (j = 0; j < 4000; j++) {
            ld x = x0 - j * dx, z = s->z[0] - j * dx * s2, rise = 1.0L / (1.0L + risen * expl(-x)),
               theta = curve.top * rise, turn = theta * (1.0L - rise);
            lc l = clogl(1.0L + cexpl(x + (lc)I * theta));
            ld at = sqrtl(s2 / (2.0L * (ld)FA_PI) * (1.0L + turn * turn)) *
                    expl(-0.5L * z * z / s2 + 0.5L * s2 * theta * theta + curve.c * (creall(l) - curve.mean) -
                         curve.t * cimagl(l));
            first = j ? first : at;
            sum += j ? at * dx : 0.5L * at * dx;
        }
        compare(d, "left of the nodes on the tail's curve", sum,
                fa_cap_left_mass(d->b, &curve, risen, (double)first * s->h * s->slope[0]), 0.0L);
    }
}
