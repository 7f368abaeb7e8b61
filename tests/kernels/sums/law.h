/* law.h -- the law of one step of a capped line in 80 bits, for comparisons: its loss, its windows, and moments as
 * integrals (sums much finer than they need) and as sums over the kernel's own nodes.
 *
 * Nothing here is taken from the kernels but where nodes and windows are.
 */
#include "sums.h"

static int is_mixture(const fa_cap_block *b) { return b->family == &fa_mixture_family; }

/* weights and means of both sides in units of the widest range, reference first: of a pair; the doubles of the kernel
 * are roundings of these */
typedef struct {
    int n_p, n_q, records;
    ld p[8], m[8], q[8], b[8], sigma, kappa, rate;
} law;

static ld normal_tail(ld x) { return 0.5L * erfcl(x * 0.70710678118654752440084436210485L); }

/* records: 0 a sampled Gaussian, k a group of k, -1 a replaced record; sigma in units of the widest range */
static law law_of(double sigma, double rate, int records)
{
    law out = {0};
    int i, k = records < 1 ? 1 : records;
    out.records = records;
    out.rate = rate;
    out.sigma = records > 1 ? (ld)(sigma / records) : (ld)sigma;
    out.n_p = k + 1;
    for (i = 0; i <= k; i++) {
        out.m[i] = (ld)i / k;
        out.p[i] = expl(lgammal(k + 1.0L) - lgammal(i + 1.0L) - lgammal(k - i + 1.0L) + i * logl(rate) +
                        (k - i) * log1pl(-(ld)rate));
    }
    out.n_q = records < 0 ? 2 : 1;
    out.q[0] = records < 0 ? 1.0L - rate : 1.0L;
    out.q[1] = rate;
    out.b[1] = -1.0L;
    out.kappa = logl(out.p[0]) - logl(out.q[0]);
    return out;
}

/* log(1 + w) of one side, w relative to its first component */
static ld one_side(const ld *weight, const ld *mean, int n, ld z, ld s2)
{
    ld top = 0.0L, sum = 0.0L, e[8];
    int i;
    for (i = 1; i < n; i++) {
        e[i] = logl(weight[i] / weight[0]) + (mean[i] * z - 0.5L * mean[i] * mean[i]) / s2;
        top = fmaxl(top, e[i]);
    }
    for (i = 1; i < n; i++)
        sum += expl(e[i] - top);
    return top > 0.0L ? top + logl(expl(-top) + sum) : log1pl(sum);
}

/* the loss less kappa */
static ld loss_at(const law *a, ld z)
{
    ld s2 = a->sigma * a->sigma;
    return one_side(a->p, a->m, a->n_p, z, s2) - one_side(a->q, a->b, a->n_q, z, s2);
}

static ld log_density_q(const law *a, ld z)
{
    ld s2 = a->sigma * a->sigma;
    return -0.5L * z * z / s2 - logl(a->sigma * sqrtl(2.0L * PI)) + logl(a->q[0]) + one_side(a->q, a->b, a->n_q, z, s2);
}

enum { KEEP, LARGE, SMALL, BEYOND, LOW, APART }; /* keep; keep (1 - low); keep low; 1 - keep; low; low (1 - keep) */

static ld window(const fa_cap_block *b, int mode, ld z)
{
    const fa_cap_windows *w = &b->w;
    ld keep = normal_tail((z - w->cap) / w->width), low;
    if (mode == KEEP || mode == BEYOND)
        return mode == KEEP ? keep : normal_tail(((ld)w->cap - z) / w->width);
    if (!b->split) /* all losses are small */
        return mode == SMALL ? keep : 0.0L;
    low = normal_tail((z - w->floor) / w->floor_width);
    if (mode == LOW || mode == APART)
        return mode == LOW ? low : low * normal_tail(((ld)w->cap - z) / w->width);
    return keep * (mode == SMALL ? low : normal_tail(((ld)w->floor - z) / w->floor_width));
}

/* exp(s), exp(s) - 1 or exp(s) - 1 - s */
static lc power(lc s, int order)
{
    lc term, sum;
    int i;
    if (order == 0 || cabsl(s) > 0.7L)
        return cexpl(s) - (order > 0) - (order > 1 ? s : 0.0L);
    term = order == 1 ? s : 0.5L * s * s;
    for (sum = term, i = order + 1; i < 40; i++) {
        term *= s / i;
        sum += term;
    }
    return sum;
}

/* where exp(x l) Q is largest, x < 0: left of 0 */
static ld centre(const law *a, ld x)
{
    ld low = x < 0.0L ? x - 1.0L : 0.0L, high = 0.0L, s2 = a->sigma * a->sigma;
    int i;
    for (i = 0; i < 200 && low < high; i++) {
        ld z = 0.5L * (low + high), d = 1e-6L * a->sigma, slope = (loss_at(a, z + d) - loss_at(a, z - d)) / (2.0L * d);
        if (x * slope * s2 - z > 0.0L)
            low = z;
        else
            high = z;
    }
    return high;
}

/* a step fine enough for exp(u l) and the windows there, in z */
static ld fine_step(const law *a, const fa_cap_block *b, lc u, int mode)
{
    ld s2 = a->sigma * a->sigma, x = fabsl(creall(u)), t = fabsl(cimagl(u)), w = b->w.width,
       h = fminl(2.0L * PI * s2 * 2.4L / (52.0L + 2.6L * t + 3.4L * s2 + 0.4L * x), a->sigma / 5.0L);
    if (mode != KEEP && mode != BEYOND && b->split)
        w = fminl(w, b->w.floor_width);
    return fminl(h, 2.0L * PI * 10.0L * w / (110.0L + 10.0L * t * w / s2 + 10.0L * x * w / s2 + 50.0L * w * w / s2));
}

/* E_Q[power(u (l - shift)) window] over z in [from, to] where those are finite, shift counted from kappa; NAN where it
 * is too much work */
static lc moment(const law *a, const fa_cap_block *b, int mode, lc u, int order, ld shift, ld from, ld to)
{
    ld x = creall(u), h = fine_step(a, b, u, mode), low = fmaxl(centre(a, x) - 14.0L * a->sigma - (a->n_q > 1), from),
       high = fmaxl(x, 1.0L) + 15.0L * a->sigma;
    lc sum = 0.0L, less = 0.0L;
    long j, n;
    if (mode == BEYOND)
        high = fmaxl(high, b->w.cap + 15.0L * a->sigma);
    else if (mode != LOW)
        high = fminl(high, b->w.cap + 18.0L * b->w.width);
    high = fminl(high, to);
    if (!(high > low))
        return 0.0L;
    n = (long)fminl((high - low) / h, 1e7L) + 2;
    if (n > 60000)
        return NAN;
    h = (high - low) / n;
    for (j = 0; j <= n; j++) {
        ld z = low + j * h, e = log_density_q(a, z), in = window(b, mode, z);
        lc s = u * (loss_at(a, z) - shift), value, y, next;
        if (in == 0.0L || (order == 0 && e + creall(s) < -11000.0L))
            continue;
        value = order == 0 ? cexpl(e + s) : expl(e) * power(s, order);
        y = (j == 0 || j == n ? 0.5L : 1.0L) * in * value - less;
        next = sum + y;
        less = (next - sum) - y;
        sum = next;
    }
    return h * sum;
}

static lc whole(const law *a, const fa_cap_block *b, int mode, lc u, int order, ld shift)
{
    return moment(a, b, mode, u, order, shift, -INFINITY, INFINITY);
}

/* a node of the kernel's: z, l and its weight without windows */
static void node(const law *a, const fa_cap_block *b, int j, ld *z, ld *l, ld *weight)
{
    const fa_cap_nodes *s = &b->nodes;
    ld s2 = a->sigma * a->sigma;
    if (is_mixture(b)) {
        *z = s->z[j];
        *l = loss_at(a, *z);
        *weight = expl(log_density_q(a, *z)) * ((ld)s->z[1] - s->z[0]);
    }
    else {
        ld xi = (ld)s->start + j * (ld)s->h, stretch = s->stretch, rest;
        *l = stretch * (xi > 40.0L ? xi + expl(-xi) : log1pl(expl(xi)));
        rest = -expm1l(-*l);
        *z = s2 * (*l + logl(rest) - logl(a->rate) + log1pl(-a->rate)) + 0.5L;
        *weight = expl(log_density_q(a, *z)) * s->h * s2 * stretch / ((1.0L + expl(-xi)) * rest);
    }
}

/* the same moment as a sum over those nodes */
static lc node_sum(const law *a, const fa_cap_block *b, int mode, lc u, int order, ld shift)
{
    int j, n = mode == SMALL && b->nodes.seen < b->nodes.sum.n ? b->nodes.seen : b->nodes.sum.n;
    lc sum = 0.0L, less = 0.0L;
    for (j = 0; j < n; j++) {
        ld z, l, weight;
        lc y, next;
        node(a, b, j, &z, &l, &weight);
        weight *= window(b, mode, z);
        if (weight == 0.0L)
            continue;
        y = weight * power(u * (l - shift), order) - less;
        next = sum + y;
        less = (next - sum) - y;
        sum = next;
    }
    return sum;
}
