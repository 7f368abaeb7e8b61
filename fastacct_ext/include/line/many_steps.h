/* line/many_steps.h -- the line of line/contour.h for jobs of very many different sampled Gaussians: one pass over the
 * steps, nothing kept of any.
 *
 * A few steps in the place of groups of similar ones (the sketch) say where the line is best and how long it must be.
 * Then every step is read once, on the real line, with nodes that stay in the cache: its M at all points of the line,
 * at Chernoff's two points, and its share of the tail.  Only the choice of the line depends on the sketch; every number
 * that is certified is a sum over all steps.
 *
 *   M(u) = sum W exp(u L) at u = a + i (k0 + j) h:   Re = A c_j - B s_j,  Im = B c_j + A s_j,   A + i B = W exp((a + i
 * k0 h) L),  j = -4 .. 4
 *
 * A and B advance by nine points at a time: two products a point instead of eight.  docs/algorithms/contour.md, "Many
 * different steps".
 */
#ifndef FA_MANY_STEPS_H
#define FA_MANY_STEPS_H

#include "../exact/exact.h"

#define FA_MANY_LEAST     128 /* fewer steps: each with nodes of its own (line/contour.h) */
#define FA_MANY_TOTAL     1e5 /* more steps in all: terms of first order would round too much */
#define FA_MANY_SIGMAS    5   /* the sketch: groups by sigma ... */
#define FA_MANY_RATES     4   /* ... each divided by rate */
#define FA_MANY_SKETCH    (FA_MANY_SIGMAS * FA_MANY_RATES)
#define FA_MANY_NODES     2048
#define FA_MANY_CHUNK     8 /* nodes that are summed while they are in the nearest cache */
#define FA_MANY_BABY      4 /* points on either side of a giant step's */
#define FA_MANY_GIANT     (2 * FA_MANY_BABY + 1)
#define FA_MANY_POINTS    (FA_MANY_GIANT * 128)
#define FA_MANY_TOLERANCE 24.0 /* -log of the relative error aimed at ... */
#define FA_MANY_RETRY     5.0  /* ... and how much more where that was not enough */
#define FA_MANY_TAIL      0.8  /* share of the variance whose steps bound the tail, the others count by M(a) ... */
#define FA_MANY_LONG      10   /* ... on lines of no more giant steps */

typedef struct { /* one node of FA_LANE steps */
    double a[FA_LANE], b[FA_LANE], turn_r[FA_LANE], turn_i[FA_LANE];
    double c[FA_MANY_BABY][FA_LANE], s[FA_MANY_BABY][FA_LANE];
} fa_many_node;

typedef struct { /* FA_LANE steps that are read together */
    double sigma[FA_LANE], inv_var[FA_LANE], constant[FA_LANE], kappa[FA_LANE], count[FA_LANE], step[FA_LANE],
        first[FA_LANE], base[FA_LANE], cut[FA_LANE];
    double at_a[FA_LANE], at_right[FA_LANE], at_left[FA_LANE], at_other[FA_LANE], error[FA_LANE],
        log_a[FA_LANE]; /* M, then its logarithm */
} fa_many_group;

typedef struct {
    fa_many_group group;
    fa_many_node nodes[FA_MANY_CHUNK];
    double sums[2 * FA_MANY_POINTS][FA_LANE]; /* A c, B s, B c, A s of the points, as they are needed */
    double zr[FA_MANY_POINTS][FA_LANE], zi[FA_MANY_POINTS][FA_LANE], size[FA_MANY_POINTS][FA_LANE],
        least[FA_MANY_POINTS][FA_LANE]; /* log M, counted; its moduli; the least |M|^2 */
    fa_block block;                     /* for the tail */
} fa_many_scratch;

typedef struct {
    int n, directions, points_max;
    double *sigma, *rate, *count, *variance; /* by sigma; variance: of the loss, about, all counted */
    double *sorted, *memory;
    double total, add_end;
    double tail_from;              /* steps of at least this variance bound the tail */
    fa_contour sketch[2], line[2]; /* [0] remove, [1] add; what is read is the line, which has no nodes */
    fa_block blocks[2][FA_MANY_SKETCH];
    double chernoff_v, chernoff_k; /* direction add: a point and K there, from the pass of the other direction;
                                      chernoff_v <= 1: none */
    double slope;                  /* d log delta/d eps of the line read last */
    fa_many_scratch scratch;
} fa_many;

FA_FUNC void fa_many_free(fa_many *m)
{
    int d;
    for (d = 0; m && d < 2; d++) {
        fa_contour_free(m->sketch + d);
        m->line[d].n_blocks = 0;
        fa_contour_free(m->line + d);
    }
    if (m)
        free(m->memory);
    free(m);
}

typedef struct {
    double key, variance;
    int at;
} fa_many_item;

static int fa_many_compare(const void *a, const void *b)
{
    double x = ((const fa_many_item *)a)->key, y = ((const fa_many_item *)b)->key;
    return x < y ? -1 : x > y;
}

FA_FUNC void fa_many_sort(fa_many *m, double *x, const fa_many_item *items)
{
    int i;
    for (i = 0; i < m->n; i++)
        m->sorted[i] = x[items[i].at];
    memcpy(x, m->sorted, sizeof(double) * (size_t)m->n);
}

/* the sketch: groups of equal variance by sigma, each divided by rate; one step with the group's count and variance
 * stands for it */
FA_FUNC int fa_many_sketch(fa_many *m)
{
    fa_many_item *items = fa_alloc(sizeof(fa_many_item) * (size_t)m->n);
    double all = 0.0, seen = 0.0;
    int i, j, k, end, used = 0, d;
    if (!items)
        return 0;
    for (i = 0; i < m->n; i++) {
        items[i].at = i;
        items[i].variance = m->variance[i];
        items[i].key = m->sigma[i];
        all += m->variance[i];
    }
    qsort(items, (size_t)m->n, sizeof(fa_many_item), fa_many_compare);
    fa_many_sort(m, m->sigma, items);
    fa_many_sort(m, m->rate, items);
    fa_many_sort(m, m->count, items);
    fa_many_sort(m, m->variance, items);
    for (i = 0; i < m->n; i++)
        items[i].at = i;
    for (i = 0, k = 1; i < m->n; i = end, k++) {
        double group = 0.0, part = 0.0;
        int part_end, l = 1;
        for (end = i; end < m->n && (k == FA_MANY_SIGMAS || seen < all * k / FA_MANY_SIGMAS); end++) {
            seen += items[end].variance;
            group += items[end].variance;
            items[end].key = m->rate[items[end].at];
        }
        if (end == i)
            continue;
        qsort(items + i, (size_t)(end - i), sizeof(fa_many_item), fa_many_compare);
        for (j = i; j < end; j = part_end, l++) {
            double count = 0.0, variance = 0.0, inverse = 0.0, rate;
            for (part_end = j; part_end < end && (l == FA_MANY_RATES || part < group * l / FA_MANY_RATES); part_end++) {
                const fa_many_item *item = items + part_end;
                part += item->variance;
                count += m->count[item->at];
                variance += item->variance;
                inverse += item->variance / (m->sigma[item->at] * m->sigma[item->at]);
            }
            if (part_end == j)
                continue;
            inverse /= variance;
            rate = sqrt(variance / (count * expm1(fa_min(inverse, 8.0))));
            rate = fa_max(m->rate[items[j].at], fa_min(m->rate[items[part_end - 1].at], rate));
            for (d = 0; d < 2; d++) {
                fa_pair_sampled(&m->blocks[d][used].pair, 1.0 / sqrt(inverse), rate);
                m->blocks[d][used].count = count;
            }
            used++;
        }
    }
    free(items);
    if (used < 2)
        return 0; /* one block alone may take paths that a line cannot follow */
    for (d = 0; d < 2; d++) {
        m->sketch[d].blocks = m->blocks[d];
        m->sketch[d].n_blocks = used;
    }
    return 1;
}

/* room for up to n steps, to be filled by fa_many_add; NULL: no memory */
FA_FUNC fa_many *fa_many_new(int n, int directions, int points_max)
{
    fa_many *m = fa_alloc_zeroed(sizeof(fa_many));
    if (!m || !(m->memory = fa_alloc(sizeof(double) * 5 * (size_t)n))) {
        free(m);
        return 0;
    }
    m->directions = directions;
    m->points_max = points_max;
    m->sigma = m->memory;
    m->rate = m->memory + n;
    m->count = m->memory + 2 * (size_t)n;
    m->variance = m->memory + 3 * (size_t)n;
    m->sorted = m->memory + 4 * (size_t)n;
    return m;
}

FA_FUNC void fa_many_add(fa_many *m, double sigma, double rate, double count)
{
    int i = m->n++;
    m->sigma[i] = sigma;
    m->rate[i] = rate;
    m->count[i] = count;
    m->variance[i] = fa_max(count * rate * rate * expm1(fa_min(1.0 / (sigma * sigma), 8.0)), 1e-300);
    m->total += count;
}

/* the largest variance of a single step such that those of at least this have FA_MANY_TAIL of all */
FA_FUNC double fa_many_tail_from(const fa_many *m)
{
    double low = 0.0, high = 0.0, all = 0.0, mid, above;
    int i, k;
    for (i = 0; i < m->n; i++) {
        all += m->variance[i];
        high = fa_max(high, m->variance[i] / m->count[i]);
    }
    for (k = 0; k < 12; k++) {
        mid = 0.5 * (low + high);
        above = 0.0;
        for (i = 0; i < m->n; i++)
            above += m->variance[i] >= mid * m->count[i] ? m->variance[i] : 0.0;
        if (above >= FA_MANY_TAIL * all)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* all steps added; 0: these are not for here */
FA_FUNC int fa_many_ready(fa_many *m, double mu2, double add_end)
{
    int d;
    if (m->n < FA_MANY_LEAST || !(m->total <= FA_MANY_TOTAL) || !fa_many_sketch(m))
        return 0;
    m->add_end = add_end;
    m->tail_from = fa_many_tail_from(m);
    for (d = 0; d < 2; d++) {
        m->sketch[d].mu2 = m->line[d].mu2 = mu2;
        m->sketch[d].total = m->line[d].total = m->total;
        m->sketch[d].sign = m->line[d].sign = d ? -1 : 1;
        m->line[d].n_blocks = m->n;
    }
    return 1;
}

/* step of the real line for |Im u| <= t: docs/algorithms/log_moments.md, "Sums over a line" */
FA_INLINE double fa_many_step(double s2, double t, double need, double top)
{
    double d = fa_min(sqrt(2.0 * need / s2), top);
    return 2.0 * FA_PI * s2 / (t + need / d + 0.5 * s2 * d);
}

/* where the sums of FA_LANE steps may end (docs/algorithms/log_moments.md, "Ends"), their nodes' step and number; u:
 * the largest exponent (or the most negative one), other: one of the other sign, or 0 */
FA_INLINE double fa_many_ends(fa_many_group *g, double a, double u, double other, double t_max, double need, int *every)
{
    double count[FA_LANE], far[FA_LANE], most = 0.0, low = fa_min(u, other);
    int lane;
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        double s2 = g->sigma[lane] * g->sigma[lane], reach = need + fa_max(0.0, fa_min(a, low) * g->kappa[lane]),
               width = sqrt(2.0 * reach) * g->sigma[lane], right = u + width, left = -width, h;
        int i;
        for (i = 0; i < 5; i++) /* every iterate will do */
            right = u / (1.0 + fa_exp_plain_v(-FA_FMA(right, g->inv_var[lane], g->constant[lane]))) + width;
        right = u > 0.0 ? fa_max(right, width) : 1.0 + width;
        right = low < 0.0 ? fa_max(right, 1.0 + width) : right;
        left += low < 0.0 ? low / (1.0 + fa_exp_plain_v(-FA_FMA(-width, g->inv_var[lane], g->constant[lane]))) : 0.0;
        right = fa_min(right, g->cut[lane]);
        h = fa_many_step(s2, t_max, reach, u > 0.0 ? 0.9 * FA_PI : 0.5 * FA_PI);
        h = other < 0.0 ? fa_min(h, fa_many_step(s2, 0.0, reach, 0.5 * FA_PI)) : h;
        h = fa_from_bits(fa_bits(h) & ~((1ULL << 29) - 1));
        g->step[lane] = h;
        g->first[lane] = floor(left / h);
        count[lane] = right / h - g->first[lane] + 2.0;
        { /* -log of the error of sums over every other node, at real points */
            double d = fa_min(FA_PI / h, low < 0.0 ? 0.5 * FA_PI : 0.9 * FA_PI);
            far[lane] = d * s2 * (FA_PI / h - 0.5 * d) - fa_max(0.0, low * g->kappa[lane]);
        }
        g->base[lane] = fa_log_v(h / g->sigma[lane]) - 0.918938533204672741780;
    }
    *every = 2;
    for (lane = 0; lane < FA_LANE; lane++) {
        most = count[lane] > most || !(count[lane] == count[lane]) ? count[lane] : most;
        if (!(far[lane] > need - 5.5)) /* 2 exp(-20) over all steps */
            *every = 1;
    }
    return most;
}

/* nodes j .. j + FA_MANY_CHUNK - 1: phasors at the first giant point, and what the steps' real sums and rounding errors
 * grow by */
FA_INLINE void fa_many_fill(fa_many_scratch *s, double j, double a, double u_right, double u_left, double u_other,
                            double u_max, double h_t, int every)
{
    fa_many_group *g = &s->group;
    int i, lane;
    for (i = 0; i < FA_MANY_CHUNK; i++) {
        fa_many_node *to = s->nodes + i;
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            double x = (g->first[lane] + j + i) * g->step[lane], e = FA_FMA(g->inv_var[lane], x, g->constant[lane]),
                   plain, l, lw, size, w, exponent, off;
            double c1, s1, c2, s2, c3, s3, c4, s4, c5, s5;
            plain = fa_log1p_plain_v(fa_exp_plain_v(-fabs(e))) + fa_max(e, 0.0);
            l = plain + g->kappa[lane];
            lw = x <= g->cut[lane] ? g->base[lane] - 0.5 * x * (x * g->inv_var[lane]) : -1e4;
            size = FA_FMA(a, l, lw);
            w = size > -690.0 ? fa_exp_plain_v(size) : 0.0;
            g->at_a[lane] += w;
            if (every == 1 || (i & 1) == 0) {
                size = FA_FMA(u_right, l, lw);
                g->at_right[lane] += size > -690.0 ? fa_exp_plain_v(size) : 0.0;
                if (u_left != 0.0) {
                    size = FA_FMA(u_left, l, lw);
                    g->at_left[lane] += size > -690.0 ? fa_exp_plain_v(size) : 0.0;
                }
                if (u_other != 0.0) {
                    size = FA_FMA(u_other, l, lw);
                    g->at_other[lane] += size > -690.0 ? fa_exp_plain_v(size) : 0.0;
                }
            }
            s1 = fa_sincos_v(h_t * l, &c1);
            c2 = FA_FMA(c1, c1, -s1 * s1);
            s2 = 2.0 * c1 * s1;
            c3 = FA_FMA(c2, c1, -s2 * s1);
            s3 = FA_FMA(c2, s1, s2 * c1);
            c4 = FA_FMA(c2, c2, -s2 * s2);
            s4 = 2.0 * c2 * s2;
            c5 = FA_FMA(c4, c1, -s4 * s1);
            s5 = FA_FMA(c4, s1, s4 * c1);
            to->c[0][lane] = c1;
            to->s[0][lane] = s1;
            to->c[1][lane] = c2;
            to->s[1][lane] = s2;
            to->c[2][lane] = c3;
            to->s[2][lane] = s3;
            to->c[3][lane] = c4;
            to->s[3][lane] = s4;
            to->turn_r[lane] = FA_FMA(c4, c5, -s4 * s5);
            to->turn_i[lane] = FA_FMA(c4, s5, s4 * c5);
            to->a[lane] = w * c4;
            to->b[lane] = w * s4;
            exponent = 3.0 * FA_FMA(g->inv_var[lane], fabs(x), fabs(g->constant[lane]));
            off = exponent * fa_min(1.0, plain) + 8.0 * plain + 4.0 * fabs(l) + 2.0 * fabs(g->kappa[lane]);
            g->error[lane] += w * (80.0 + 4.0 * (fabs(lw) + fabs(a * l)) + u_max * off);
        }
    }
}

/* add the nodes' share to the sums of nine points, and turn the phasors on to the next nine */
FA_INLINE void fa_many_nine(fa_many_node *nodes, double (*sums)[FA_LANE])
{
    double p[FA_MANY_BABY][FA_LANE], q[FA_MANY_BABY][FA_LANE], r[FA_MANY_BABY][FA_LANE], t[FA_MANY_BABY][FA_LANE],
        pr[FA_LANE], pi[FA_LANE];
    int i, lane, j;
    for (lane = 0; lane < FA_LANE; lane++) {
        pr[lane] = sums[0][lane];
        pi[lane] = sums[1][lane];
        for (j = 0; j < FA_MANY_BABY; j++) {
            p[j][lane] = sums[2 + 4 * j][lane];
            q[j][lane] = sums[3 + 4 * j][lane];
            r[j][lane] = sums[4 + 4 * j][lane];
            t[j][lane] = sums[5 + 4 * j][lane];
        }
    }
    for (i = 0; i < FA_MANY_CHUNK; i++) {
        fa_many_node *at = nodes + i;
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            double a = at->a[lane], b = at->b[lane];
            pr[lane] += a;
            pi[lane] += b;
#define FA_BABY(k)                                                                                                     \
    p[k][lane] = FA_FMA(a, at->c[k][lane], p[k][lane]);                                                                \
    q[k][lane] = FA_FMA(b, at->s[k][lane], q[k][lane]);                                                                \
    r[k][lane] = FA_FMA(b, at->c[k][lane], r[k][lane]);                                                                \
    t[k][lane] = FA_FMA(a, at->s[k][lane], t[k][lane]);
            FA_BABY(0)
            FA_BABY(1)
            FA_BABY(2)
            FA_BABY(3)
#undef FA_BABY
            at->a[lane] = FA_FMA(a, at->turn_r[lane], -b * at->turn_i[lane]);
            at->b[lane] = FA_FMA(a, at->turn_i[lane], b * at->turn_r[lane]);
        }
    }
    for (lane = 0; lane < FA_LANE; lane++) {
        sums[0][lane] = pr[lane];
        sums[1][lane] = pi[lane];
        for (j = 0; j < FA_MANY_BABY; j++) {
            sums[2 + 4 * j][lane] = p[j][lane];
            sums[3 + 4 * j][lane] = q[j][lane];
            sums[4 + 4 * j][lane] = r[j][lane];
            sums[5 + 4 * j][lane] = t[j][lane];
        }
    }
}

/* log M of the steps at point k, counted */
FA_INLINE void fa_many_point(fa_many_scratch *s, int k, const double *re, const double *im)
{
    const double *count = s->group.count;
    int lane;
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        double li, lr = fa_clog1p_v(re[lane] - 1.0, im[lane], &li);
        s->zr[k][lane] = FA_FMA(count[lane], lr, s->zr[k][lane]);
        s->zi[k][lane] = FA_FMA(count[lane], li, s->zi[k][lane]);
        s->size[k][lane] += count[lane] * (fabs(lr) + fabs(li));
        s->least[k][lane] = fa_min(s->least[k][lane], FA_FMA(re[lane], re[lane], im[lane] * im[lane]));
    }
}

FA_INLINE void fa_many_points(fa_many_scratch *s, int giant)
{
    double (*x)[FA_LANE] = s->sums + 2 * giant * FA_MANY_GIANT;
    double re[2][FA_LANE], im[2][FA_LANE];
    int j, lane, k = giant * FA_MANY_GIANT + FA_MANY_BABY;
    fa_many_point(s, k, x[0], x[1]);
    for (j = 0; j < FA_MANY_BABY; j++) {
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            double ac = x[2 + 4 * j][lane], bs = x[3 + 4 * j][lane], bc = x[4 + 4 * j][lane], as = x[5 + 4 * j][lane];
            re[0][lane] = ac - bs;
            im[0][lane] = bc + as;
            re[1][lane] = ac + bs;
            im[1][lane] = bc - as;
        }
        fa_many_point(s, k + 1 + j, re[0], im[0]);
        fa_many_point(s, k - 1 - j, re[1], im[1]);
    }
}

/* FA_LANE steps from number b on; where there are fewer, the last one stands in with count 0 */
FA_INLINE void fa_many_take(const fa_many *m, fa_many_group *g, int b, double cut)
{
    int lane;
    for (lane = 0; lane < FA_LANE; lane++) {
        int i = b + lane < m->n ? b + lane : m->n - 1;
        g->sigma[lane] = m->sigma[i];
        g->kappa[lane] = log1p(-m->rate[i]);
        g->constant[lane] = log(m->rate[i]);
        g->count[lane] = b + lane < m->n ? m->count[i] : 0.0;
    }
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        g->inv_var[lane] = 1.0 / (g->sigma[lane] * g->sigma[lane]);
        g->constant[lane] = g->constant[lane] - g->kappa[lane] - 0.5 * g->inv_var[lane];
        g->cut[lane] = 1.0 + cut * g->sigma[lane];
        g->at_a[lane] = g->at_right[lane] = g->at_left[lane] = g->at_other[lane] = g->error[lane] = 0.0;
    }
}

/* the error of M, from its rounding on: aliasing (bound: of the integral of |exp(u L) Q|) and what the ends leave out;
 * the sums' n nodes are summed.  Logarithms of the real sums.  0: the cut shows */
FA_INLINE int fa_many_errors(fa_many_group *g, double a, double u_right, double need, int n, int every, double total)
{
    double bad[FA_LANE], edge = log(total) + 30.0;
    int lane, ok = 1;
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        double sigma = g->sigma[lane], z = g->first[lane] * g->step[lane] / sigma,
               last = fa_min((g->first[lane] + n - 1.0) * g->step[lane], g->cut[lane]), e, end, far, bound;
        double reach = need + fa_max(0.0, a * g->kappa[lane]);
        e = FA_FMA(g->inv_var[lane], last, g->constant[lane]);
        end = fa_log1p_plain_v(fa_exp_plain_v(-fabs(e))) + fa_max(e, 0.0) + g->kappa[lane];
        far = 0.5 * last * (last * g->inv_var[lane]);
        bound = a > 0.0 ? g->at_a[lane] : fa_exp_plain_v(a * g->kappa[lane]);
        g->error[lane] = FA_EPS * (g->error[lane] + n * g->at_a[lane]) + 2.1 * fa_exp_plain_v(-reach) * bound +
                         fa_exp_plain_v(-0.5 * z * z) * fa_max(1.0, bound);
        g->error[lane] += (a > 0.0 ? 4.0 * fa_max(1.0, g->step[lane] / sigma) : 1.0) *
                          fa_exp_plain_v(fa_min(690.0, FA_FMA(a, end, -far)));
        bad[lane] = g->at_right[lane] < 1e280 && g->at_left[lane] < 1e280 && g->at_other[lane] < 1e280 ? 0.0 : 1.0;
        g->at_right[lane] = fa_log_v(fa_max(every * g->at_right[lane], 1e-290));
        g->at_left[lane] = fa_log_v(fa_max(every * g->at_left[lane], 1e-290));
        g->at_other[lane] = fa_log_v(fa_max(every * g->at_other[lane], 1e-290));
        g->log_a[lane] = fa_log_v(fa_max(g->at_a[lane] + 2.0 * g->error[lane], 1e-290)) + 1e-14;
        bad[lane] += last == g->cut[lane] && !(FA_FMA(u_right, end, -far) + edge < g->at_right[lane]) ? 1.0 : 0.0;
    }
    for (lane = 0; lane < FA_LANE; lane++)
        ok = ok && bad[lane] == 0.0 && g->at_a[lane] < 1e280 && g->error[lane] < 1e-3;
    return ok;
}

/* log of the bound of |M|^count for all Im u >= t, step number b, which stands in `lane` */
FA_INLINE double fa_many_tail(const fa_many *m, fa_many_scratch *s, int b, int lane, double a, double t, double cut,
                              int all)
{
    const fa_many_group *g = &s->group;
    fa_block *block = &s->block;
    double count = m->count[b], unused;
    if (!all && m->variance[b] < m->tail_from * count)
        return count * g->log_a[lane];
    fa_pair_sampled(&block->pair, m->sigma[b], m->rate[b]);
    block->cut = block->pair.p_top + cut * block->pair.sigma;
    block->cut_loss = cut < INFINITY ? block->pair.kappa + fa_pair_loss(&block->pair, block->cut, &unused, &unused)
                                     : INFINITY;
    return count * (a * block->pair.kappa + fa_tail_majorant(block, a, t, g->at_a[lane] * exp(-a * block->pair.kappa),
                                                             -4.0 - log(m->total) - 40.0 / m->total));
}

/* evaluate the line placed on `from` over all steps, `giants` times nine points; 0: it will not do.  With other_v > 1,
 * also the other direction's K at that point */
FA_FUNC int fa_many_pass(fa_many *m, fa_contour *run, const fa_contour *from, int giants, double other_v)
{
    fa_many_scratch *s = &m->scratch;
    fa_many_group *g = &s->group;
    int points = giants * FA_MANY_GIANT, i, b, k, lane;
    double a = fa_line_u(from, from->c), u_right = fa_line_u(from, from->right),
           u_left = from->left > 1.0 ? fa_line_u(from, from->left) : 0.0;
    double u_other = other_v > 1.0 ? fa_line_u(from, 1.0 - other_v) : 0.0, need = 25.5 + log(1.0 + m->total),
           t_max = (points - 1) * from->h, u_max = fabs(a) + t_max;
    double mu2 = run->mu2, log_tail, k_right, k_left, k_other, turning = 0.0;
    run->n = 0;
    if (points > FA_MANY_POINTS || !fa_contour_reserve(run, points))
        return 0;
    run->c = from->c;
    run->h = from->h;
    run->cut = from->cut;
    run->log_cut = from->log_cut;
    run->right = from->right;
    run->left = from->left;
    run->t_end = t_max;
    run->block_sum = run->relative = 0.0;
    memset(s->zr, 0, sizeof(s->zr[0]) * (size_t)points);
    memset(s->zi, 0, sizeof(s->zi[0]) * (size_t)points);
    memset(s->size, 0, sizeof(s->size[0]) * (size_t)points);
    for (i = 0; i < points; i++)
        for (lane = 0; lane < FA_LANE; lane++)
            s->least[i][lane] = INFINITY;
    k_right = 0.5 * run->right * (run->right - 1.0) * mu2;
    k_left = 0.5 * run->left * (run->left - 1.0) * mu2;
    k_other = 0.5 * other_v * (other_v - 1.0) * mu2;
    log_tail = -log(FA_PI * t_max) + 0.5 * (run->c * (run->c - 1.0) - t_max * t_max) * mu2 + 1e-9;
    for (b = 0; b < m->n; b += FA_LANE) {
        double nodes;
        int n, every;
        fa_many_take(m, g, b, run->cut);
        nodes = fa_many_ends(g, a, run->sign > 0 ? u_right : fa_min(a, u_right), u_other, t_max, need, &every);
        if (!(nodes < FA_MANY_NODES))
            return 0;
        n = ((int)nodes + FA_MANY_CHUNK) / FA_MANY_CHUNK * FA_MANY_CHUNK;
        memset(s->sums, 0, sizeof(s->sums[0]) * (size_t)(2 * points));
        for (i = 0; i < n; i += FA_MANY_CHUNK) {
            fa_many_fill(s, i, a, u_right, u_left, u_other, u_max, run->h, every);
            for (k = 0; k < giants; k++)
                fa_many_nine(s->nodes, s->sums + 2 * k * FA_MANY_GIANT);
        }
        for (k = 0; k < giants; k++)
            fa_many_points(s, k);
        if (!fa_many_errors(g, a, u_right, need, n, every, m->total))
            return 0;
        for (lane = 0; lane < FA_LANE && b + lane < m->n; lane++) {
            double count = g->count[lane];
            run->relative += count * g->error[lane];
            turning += 10.0 * FA_EPS * count * g->at_a[lane];
            k_right += count * g->at_right[lane];
            if (u_left != 0.0)
                k_left += count * g->at_left[lane];
            if (u_other != 0.0)
                k_other += count * g->at_other[lane];
            log_tail += fa_many_tail(m, s, b + lane, lane, a, t_max, run->cut, giants > FA_MANY_LONG);
        }
    }
    run->relative += turning * points;
    for (i = 0; i < points; i++) {
        double t = i * run->h, zr = 0.0, zi = 0.0, size = 0.0, least = INFINITY;
        for (lane = 0; lane < FA_LANE; lane++) {
            zr += s->zr[i][lane];
            zi += s->zi[i][lane];
            size += s->size[i][lane];
            least = fa_min(least, s->least[i][lane]);
        }
        run->zr[i] = zr + 0.5 * mu2 * (a * (a - 1.0) - t * t) -
                     0.5 * (fa_log_v(FA_FMA(a, a, t * t)) + fa_log_v(FA_FMA(a - 1.0, a - 1.0, t * t)));
        run->zi[i] = zi + mu2 * (a - 0.5) * t - (fa_angle_v(t, a) + fa_angle_v(t, a - 1.0));
        run->inverse[i] = 1.0 / sqrt(fa_max(least, 1e-280)) *
                          (1.0 - turning * (points - i) /
                                     run->relative); /* the errors of the phasors grow from point to point */
        run->block_sum = fa_max(run->block_sum, size);
    }
    run->slop = 1e-8 + 1e-12 * m->total * (1.0 + fabs(u_right) + fabs(u_left));
    run->right_log = k_right + fa_log_b(run->right);
    run->left_log = u_left != 0.0 ? k_left + fa_log_b(run->left) : 0.0;
    run->log_tail = log_tail + run->slop + 64.0 * FA_EPS * fabs(log_tail);
    run->slop += 64.0 * FA_EPS * (fabs(run->right_log) + fabs(run->left_log));
    if (run->sign > 0) {
        m->chernoff_v = other_v;
        m->chernoff_k = k_other + 1e-8 + 1e-12 * m->total * (1.0 + other_v);
    }
    if (!(run->relative * run->inverse[0] < 1e-3) || !(run->right_log < 1e300) || !(run->left_log < 1e300))
        return 0;
    run->n = points;
    return 1;
}

/* place a line for eps, or for log_delta where eps is NaN, on the sketch and evaluate it over all steps; eps and log
 * delta there, about. more: to add to the tolerance.  0: no such line */
FA_FUNC int fa_many_place(fa_many *m, int way, double more, double *eps, double *log_delta)
{
    fa_contour *sketch = m->sketch + way, *other = m->sketch + 1;
    double other_v = 0.0, gap = INFINITY, unused;
    fa_interval guess;
    fa_reading r;
    int giants, tries;
    fa_contour_reset(sketch);
    sketch->tolerance = FA_COARSE;
    if (*eps == *eps)
        guess = fa_contour_log_delta(sketch, *eps, FA_MANY_POINTS);
    else {
        *eps = fa_place(sketch, NAN, *log_delta, *log_delta, FA_MANY_POINTS);
        if (*eps >= 0.0)
            fa_newton(sketch, *log_delta, eps, &gap, &r);
        guess.lower = guess.upper = *eps;
        if (!(*eps > 0.0) || !(gap < 1e-3) || !(r.relative + r.alias < 0.03))
            guess = fa_contour_eps(sketch, *log_delta, FA_MANY_POINTS);
        *eps = 0.5 * (guess.lower + guess.upper);
    }
    if (!(*eps > 0.0) || !(*eps < INFINITY) || !(guess.lower > -INFINITY))
        return 0;
    if (!(*log_delta == *log_delta))
        *log_delta = 0.5 * (guess.lower + guess.upper);
    sketch->tolerance = FA_MANY_TOLERANCE + more;
    if (!(fa_place(sketch, *eps, NAN, *log_delta, FA_MANY_POINTS) >= 0.0))
        return 0;
    if (way == 0 && (m->directions & FA_ADD) && *eps < m->add_end) {
        fa_contour_reset(other);
        fa_share_real(other, sketch);
        if (fa_saddle(other, *eps, NAN, &unused))
            other_v = other->c;
    }
    for (tries = 0, giants = (int)(1.04 * sketch->n) / FA_MANY_GIANT + 1; tries < 3; tries++, giants += giants / 3 + 1)
        if (!fa_many_pass(m, m->line + way, sketch, giants, other_v))
            return 0;
        else if (m->line[way].log_tail - (sketch->c - 1.0) * *eps < *log_delta - FA_MANY_TOLERANCE - more + 4.0)
            break;
    return 1;
}

/* eps at log delta in one direction; 0: not certified here */
FA_FUNC int fa_many_eps_way(fa_many *m, int way, double log_delta, fa_interval *out)
{
    fa_contour *run = m->line + way;
    double eps = NAN, size = log_delta, gap, more;
    fa_reading r;
    for (more = 0.0; more <= FA_MANY_RETRY; more += FA_MANY_RETRY) {
        if (!fa_many_place(m, way, more, &eps, &size))
            return 0;
        fa_newton(run, log_delta, &eps, &gap, &r);
        if (!(gap < 1e-3) || !(eps > 0.0))
            return 0;
        if (r.relative + r.alias < 10.0 * FA_GOOD * fa_max(1.0, -r.slope * eps))
            return fa_ends(run, log_delta, eps, gap, &r, out) && out->lower > 0.0;
    }
    return 0;
}

/* log delta at eps > 0 in one direction; 0: not certified here */
FA_FUNC int fa_many_log_delta_way(fa_many *m, int way, double eps, fa_interval *out)
{
    double size = NAN, more;
    fa_reading r;
    out->lower = out->upper = -INFINITY;
    if (way && eps >= m->add_end * (1.0 + 8.0 * FA_EPS))
        return 1;
    for (more = 0.0; more <= FA_MANY_RETRY; more += FA_MANY_RETRY) {
        if (!fa_many_place(m, way, more, &eps, &size))
            return 0;
        fa_contour_read(m->line + way, eps, &r);
        *out = fa_bounds_of(&r);
        m->slope = r.slope;
        if (r.relative + r.alias < 10.0 * FA_GOOD)
            return 1;
    }
    return 0;
}

/* whether delta_add(eps) <= exp(log_delta) is proved by Chernoff's bound, after a pass of the other direction */
FA_FUNC int fa_many_add_is_below(const fa_many *m, double eps, double log_delta)
{
    double v = m->chernoff_v;
    if (eps >= m->add_end * (1.0 + 8.0 * FA_EPS))
        return 1;
    return v > 1.0 && m->chernoff_k + fa_log_b(v) - (v - 1.0) * eps + 1e-9 * (1.0 + fabs(m->chernoff_k)) <= log_delta;
}

/* as fa_exact_eps, for log_delta < 0; 0: not certified here */
FA_FUNC int fa_many_eps(fa_many *m, double log_delta, fa_interval *out)
{
    fa_interval add;
    if (m->directions == FA_ADD)
        return fa_many_eps_way(m, 1, log_delta, out);
    if (!fa_many_eps_way(m, 0, log_delta, out))
        return 0;
    if (m->directions == FA_REMOVE || fa_many_add_is_below(m, out->upper, log_delta))
        return 1;
    if (!fa_many_log_delta_way(m, 1, out->upper, &add))
        return 0;
    if (add.upper <= log_delta)
        return 1;
    if (!fa_many_eps_way(m, 1, log_delta, &add))
        return 0;
    out->lower = fa_max(out->lower, add.lower);
    out->upper = fa_max(out->upper, add.upper);
    return 1;
}

/* as fa_exact_log_delta, for eps > 0; 0: not certified here */
FA_FUNC int fa_many_log_delta(fa_many *m, double eps, fa_interval *out)
{
    fa_interval add;
    double slope;
    if (m->directions == FA_ADD)
        return fa_many_log_delta_way(m, 1, eps, out);
    if (!fa_many_log_delta_way(m, 0, eps, out))
        return 0;
    slope = m->slope;
    if (m->directions == FA_REMOVE || fa_many_add_is_below(m, eps, out->lower))
        return 1;
    if (!fa_many_log_delta_way(m, 1, eps, &add))
        return 0;
    if (add.upper < out->upper)
        m->slope = slope;
    out->lower = fa_max(out->lower, add.lower);
    out->upper = fa_max(out->upper, add.upper);
    return 1;
}

#endif
