/* line/many_nodes.h -- the log-moments of FA_LANE steps at all points of a line, from nodes that stay in the cache.
 *
 *   M(u) = sum W exp(u L) at u = a + i (k0 + j) h:   Re = A c_j - B s_j,  Im = B c_j + A s_j,   A + i B = W exp((a + i
 * k0 h) L),  j = -4 .. 4
 *
 * A and B advance by nine points at a time: two products a point instead of eight.  docs/algorithms/contour.md, "Many
 * different steps".
 */
#ifndef FA_MANY_NODES_H
#define FA_MANY_NODES_H

#include "../loss/phasors.h"

#define FA_MANY_NODES  2048
#define FA_NODES_MAX   16384 /* of a tail */
#define FA_MANY_CHUNK  8 /* nodes that are summed while they are in the nearest cache */
#define FA_MANY_BABY   4 /* points on either side of a giant step's */
#define FA_MANY_GIANT  (2 * FA_MANY_BABY + 1)
#define FA_MANY_POINTS (FA_MANY_GIANT * 128)

#define FA_MANY_PLACES 4    /* real exponents that are looked at together, to choose a line */
#define FA_MANY_TOTAL  1e5  /* more steps in all: terms of first order would round too much */
#define FA_MANY_NEED   37.1 /* 25.5 + log(FA_MANY_TOTAL): -log of the error that is aimed at ... */
#define FA_MANY_LOOK   16.0 /* ... and where a line is only chosen */

enum { FA_MANY_RIGHT, FA_MANY_LEFT, FA_MANY_OTHER, FA_MANY_REALS }; /* Chernoff's points; one of the other direction */

typedef struct {                 /* where M is wanted */
    double a, h, t_max;          /* the line: its points, giants times nine of them, up to t_max */
    double real[FA_MANY_REALS];  /* exponents on the real axis; 0: not wanted */
    double look[FA_MANY_PLACES]; /* or only these */
    double high, low;            /* the largest exponent; the most negative one, or 0 */
    double need;
    int giants;
} fa_many_wish;

typedef struct { /* one node of FA_LANE steps */
    double a[FA_LANE], b[FA_LANE], turn_r[FA_LANE], turn_i[FA_LANE];
    double c[FA_MANY_BABY][FA_LANE], s[FA_MANY_BABY][FA_LANE];
} fa_many_node;

typedef struct { /* FA_LANE steps that are evaluated together; no number of one depends on the others */
    double sigma[FA_LANE], rate[FA_LANE], inv_var[FA_LANE], constant[FA_LANE], kappa[FA_LANE], step[FA_LANE],
        first[FA_LANE], base[FA_LANE], nodes[FA_LANE];
    double at_a[FA_LANE], error[FA_LANE]; /* of the line: M(a), its error */
    double real[FA_MANY_REALS][FA_LANE];
    double sum[3][FA_MANY_PLACES][FA_LANE]; /* M, M', M'' */
    int n;                                  /* the most nodes of a step */
} fa_many_group;

typedef struct {
    fa_many_group group;
    fa_many_node nodes[FA_MANY_CHUNK];
    double sums[FA_MANY_POINTS / FA_MANY_GIANT][2 * FA_MANY_GIANT][FA_LANE]; /* A and B, then A c, B s, B c, A s */
    double zr[FA_MANY_POINTS][FA_LANE], zi[FA_MANY_POINTS][FA_LANE];         /* log M */
} fa_many_scratch;

/* step of the real line for |Im u| <= t: docs/algorithms/log_moments.md, "Sums over a line" */
FA_INLINE double fa_many_step(double s2, double t, double need, double top)
{
    double d = fa_min(sqrt(2.0 * need / s2), top);
    return 2.0 * FA_PI * s2 / (t + need / d + 0.5 * s2 * d);
}

/* FA_LANE sampled Gaussians */
FA_INLINE void fa_many_take(fa_many_group *g, const double *sigma, const double *rate)
{
    int lane;
    memset(g, 0, sizeof(*g));
    for (lane = 0; lane < FA_LANE; lane++) {
        g->sigma[lane] = sigma[lane];
        g->rate[lane] = rate[lane];
        g->kappa[lane] = log1p(-rate[lane]);
        g->constant[lane] = log(rate[lane]);
    }
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        g->inv_var[lane] = 1.0 / (g->sigma[lane] * g->sigma[lane]);
        g->constant[lane] = g->constant[lane] - g->kappa[lane] - 0.5 * g->inv_var[lane];
    }
}

/* where the sums of each step may end (docs/algorithms/log_moments.md, "Ends"), and its nodes' step; 0: too many */
FA_INLINE int fa_many_ends(fa_many_group *g, const fa_many_wish *w)
{
    double u = w->high, low = w->low, most = 0.0;
    int lane;
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        double s2 = g->sigma[lane] * g->sigma[lane], reach = w->need + fa_max(0.0, low * g->kappa[lane]),
               width = sqrt(2.0 * reach) * g->sigma[lane], right = u + width, left = -width, h;
        int i;
        for (i = 0; i < 5; i++) /* every iterate will do */
            right = u / (1.0 + fa_exp_plain_v(-FA_FMA(right, g->inv_var[lane], g->constant[lane]))) + width;
        right = u > 0.0 ? fa_max(right, width) : 1.0 + width;
        right = low < 0.0 ? fa_max(right, 1.0 + width) : right;
        left += low < 0.0 ? low / (1.0 + fa_exp_plain_v(-FA_FMA(-width, g->inv_var[lane], g->constant[lane]))) : 0.0;
        h = fa_many_step(s2, w->t_max, reach, u > 0.0 ? 0.9 * FA_PI : 0.5 * FA_PI);
        h = low < 0.0 ? fa_min(h, fa_many_step(s2, 0.0, reach, 0.5 * FA_PI)) : h;
        h = fa_from_bits(fa_bits(h) & ~((1ULL << 29) - 1));
        g->step[lane] = h;
        g->first[lane] = floor(left / h);
        g->nodes[lane] = floor(right / h) - g->first[lane] + 2.0;
        g->base[lane] = fa_log_v(h / g->sigma[lane]) - FA_LOG_SQRT_2PI;
    }
    for (lane = 0; lane < FA_LANE; lane++)
        most = g->nodes[lane] > most || !(g->nodes[lane] == g->nodes[lane]) ? g->nodes[lane] : most;
    if (!(most < FA_MANY_NODES))
        return 0;
    g->n = ((int)most + FA_MANY_CHUNK - 1) / FA_MANY_CHUNK * FA_MANY_CHUNK;
    return 1;
}

/* (a + i b) (c + i d) */
FA_INLINE double fa_product_v(double a, double b, double c, double d, double *im_out)
{
    *im_out = FA_FMA(a, d, b * c);
    return FA_FMA(a, c, -b * d);
}

/* W exp((a + i 4 h) L) of a node, and the phasors of one to four steps of h and of nine */
FA_INLINE void fa_many_phasors(fa_many_node *to, int lane, double w, double angle)
{
    double c1, s1 = fa_sincos_v(angle, &c1), c2, s2, c3, s3, c4, s4, c5, s5;
    c2 = FA_FMA(c1, c1, -s1 * s1);
    s2 = 2.0 * c1 * s1;
    c3 = fa_product_v(c2, s2, c1, s1, &s3);
    c4 = FA_FMA(c2, c2, -s2 * s2);
    s4 = 2.0 * c2 * s2;
    c5 = fa_product_v(c4, s4, c1, s1, &s5);
    to->c[0][lane] = c1;
    to->s[0][lane] = s1;
    to->c[1][lane] = c2;
    to->s[1][lane] = s2;
    to->c[2][lane] = c3;
    to->s[2][lane] = s3;
    to->c[3][lane] = c4;
    to->s[3][lane] = s4;
    to->turn_r[lane] = fa_product_v(c4, s4, c5, s5, to->turn_i + lane);
    to->a[lane] = w * c4;
    to->b[lane] = w * s4;
}

/* add a node's W exp(u L) to the steps' sums at real u */
FA_INLINE void fa_many_real(double *sum, double u, const double *loss, const double *log_w)
{
    int lane;
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        double size = FA_FMA(u, loss[lane], log_w[lane]);
        sum[lane] += size > -690.0 ? fa_exp_plain_v(size) : 0.0;
    }
}

/* node j: x, loss and log weight, which is next to nothing where a step has no node left; log(1 + w) besides */
FA_INLINE double fa_many_node_of(const fa_many_group *g, int lane, double j, double *loss_out, double *log_w_out,
                                 double *plain_out)
{
    double x = (g->first[lane] + j) * g->step[lane], e = FA_FMA(g->inv_var[lane], x, g->constant[lane]);
    *plain_out = fa_log1p_plain_v(fa_exp_plain_v(-fabs(e))) + fa_max(e, 0.0);
    *loss_out = *plain_out + g->kappa[lane];
    *log_w_out = j < g->nodes[lane] ? g->base[lane] - 0.5 * x * (x * g->inv_var[lane]) : -1e4;
    return x;
}

/* nodes j .. j + FA_MANY_CHUNK - 1: phasors at the first giant point, and what M(a) and its rounding errors grow by */
FA_INLINE void fa_many_fill(fa_many_scratch *s, const fa_many_wish *wish, double j)
{
    fa_many_group *g = &s->group;
    double a = wish->a, h_t = wish->h, u_max = fabs(a) + wish->t_max;
    int i, lane, k;
    for (i = 0; i < FA_MANY_CHUNK; i++) {
        double loss[FA_LANE], log_w[FA_LANE];
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            double l, lw, plain, x = fa_many_node_of(g, lane, j + i, &l, &lw, &plain), size = FA_FMA(a, l, lw),
                                 w = size > -690.0 ? fa_exp_plain_v(size) : 0.0, exponent, off;
            loss[lane] = l;
            log_w[lane] = lw;
            g->at_a[lane] += w;
            fa_many_phasors(s->nodes + i, lane, w, h_t * l);
            exponent = 3.0 * FA_FMA(g->inv_var[lane], fabs(x), fabs(g->constant[lane]));
            off = exponent * fa_min(1.0, plain) + 8.0 * plain + 4.0 * fabs(l) + 2.0 * fabs(g->kappa[lane]);
            g->error[lane] += w * (80.0 + 4.0 * (fabs(lw) + fabs(a * l)) + u_max * off);
        }
        FA_PRAGMA(GCC unroll 3)
        for (k = 0; k < FA_MANY_REALS; k++)
            if (wish->real[k] != 0.0)
                fa_many_real(g->real[k], wish->real[k], loss, log_w);
    }
}

/* M and its derivatives in u at the exponents looked at; 0: too many nodes */
FA_INLINE int fa_many_look(fa_many_group *g, const fa_many_wish *wish)
{
    int j, k, lane;
    if (!fa_many_ends(g, wish))
        return 0;
    for (j = 0; j < g->n; j++) {
        double loss[FA_LANE], log_w[FA_LANE], plain;
        FA_PRAGMA(omp simd private(plain))
        for (lane = 0; lane < FA_LANE; lane++)
            (void)fa_many_node_of(g, lane, j, loss + lane, log_w + lane, &plain);
        for (k = 0; k < FA_MANY_PLACES; k++) {
            double u = wish->look[k], *sum = g->sum[0][k], *sum1 = g->sum[1][k], *sum2 = g->sum[2][k];
            FA_PRAGMA(omp simd)
            for (lane = 0; lane < FA_LANE; lane++) {
                double l = loss[lane], size = FA_FMA(u, l, log_w[lane]), w = size > -690.0 ? fa_exp_plain_v(size) : 0.0;
                sum[lane] += w;
                sum1[lane] = FA_FMA(w, l, sum1[lane]);
                sum2[lane] = FA_FMA(w * l, l, sum2[lane]);
            }
        }
    }
    return 1;
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

/* log M of the steps at point k */
FA_INLINE void fa_many_point(fa_many_scratch *s, int k, const double *re, const double *im)
{
    int lane;
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++)
        s->zr[k][lane] = fa_clog1p_v(re[lane] - 1.0, im[lane], s->zi[k] + lane);
}

FA_INLINE void fa_many_points(fa_many_scratch *s, int giant)
{
    double (*x)[FA_LANE] = s->sums[giant];
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

/* the error of M, from its rounding on: aliasing (bound: of the integral of |exp(u L) Q|) and what the ends leave out.
 * Logarithms of the real sums.  0: they will not do */
FA_INLINE int fa_many_errors(fa_many_group *g, double a)
{
    int lane, k, ok = 1;
    for (k = 0; k < FA_MANY_REALS; k++)
        for (lane = 0; lane < FA_LANE; lane++) {
            ok = ok && g->real[k][lane] < 1e280;
            g->real[k][lane] = fa_log_v(fa_max(g->real[k][lane], 1e-290));
        }
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        double sigma = g->sigma[lane], z = g->first[lane] * g->step[lane] / sigma,
               last = (g->first[lane] + g->nodes[lane] - 1.0) * g->step[lane], e, end, far, bound;
        double reach = FA_MANY_NEED + fa_max(0.0, a * g->kappa[lane]);
        e = FA_FMA(g->inv_var[lane], last, g->constant[lane]);
        end = fa_log1p_plain_v(fa_exp_plain_v(-fabs(e))) + fa_max(e, 0.0) + g->kappa[lane];
        far = 0.5 * last * (last * g->inv_var[lane]);
        bound = a > 0.0 ? g->at_a[lane] : fa_exp_plain_v(a * g->kappa[lane]);
        g->error[lane] = FA_EPS * (g->error[lane] + g->nodes[lane] * g->at_a[lane]) +
                         2.1 * fa_exp_plain_v(-reach) * bound + fa_exp_plain_v(-0.5 * z * z) * fa_max(1.0, bound);
        g->error[lane] += (a > 0.0 ? 4.0 * fa_max(1.0, g->step[lane] / sigma) : 1.0) *
                          fa_exp_plain_v(fa_min(690.0, FA_FMA(a, end, -far)));
    }
    for (lane = 0; lane < FA_LANE; lane++)
        ok = ok && g->at_a[lane] < 1e280 && g->error[lane] < 1e-3;
    return ok;
}

/* log M of the steps of a group at all points of a line; 0: they will not do */
FA_INLINE int fa_many_sum(fa_many_scratch *s, const fa_many_wish *w)
{
    fa_many_group *g = &s->group;
    int i, k;
    if (!fa_many_ends(g, w))
        return 0;
    memset(s->sums, 0, sizeof(s->sums[0]) * (size_t)w->giants);
    for (i = 0; i < g->n; i += FA_MANY_CHUNK) {
        fa_many_fill(s, w, i);
        for (k = 0; k < w->giants; k++)
            fa_many_nine(s->nodes, s->sums[k]);
    }
    for (k = 0; k < w->giants; k++)
        fa_many_points(s, k);
    return fa_many_errors(g, w->a);
}

#endif
