// Exact privacy profile of the T-fold composition of a pair of one-dimensional Gaussian mixtures, for test data.
//
// With L = log dP/dQ, M(u) = E_Q[exp(u L)] and n steps, the two directions are Bromwich integrals (F is even under
// conjugation, so twice the upper half is taken):
//
//     remove  delta(eps) = 1/(2 pi i) Int exp(n log M(u) - (u-1) eps) / (u (u-1)) du      right of 1
//     add     delta(eps) = 1/(2 pi i) Int exp(n log M(u) +  u    eps) / (u (u-1)) du      left of 0
//
// Contour: u(th) = c - mu cos b + mu cosh(th + i b), a hyperbola whose vertex is the saddle c and whose arms open to the
// right, by the trapezoidal rule in th, halved until it stands still. M(u) by the trapezoidal rule along
// z = x + i s^2 Y(x), Y = Y0 + m (X + sqrt(X^2+4))/2, X = (x-xc)/s^2; Y0 and m are searched for each u so that the sum
// of the absolute values of the terms is small, which is what the rounding errors are proportional to. Two forms of M
// keep it relatively accurate for large n; the one with the smaller sum is used:
//
//     A  M = 1 + E_Q[W^u - 1 - u (W-1)],  W = dP/dQ          B  M = e^(u l0) (1 + E_Q[e^(u (L-l0)) - 1])
//
// with l0 the log of the weight that P gives to the mean of Q. The file compiles the sums twice: in 80-bit and in
// 128-bit arithmetic. Errors are estimated, not bounded: the driver compares two runs with different contours.
//
// Reads one job a line from the standard input, writes one line for each; see `main`.

#ifndef REAL
#define _GNU_SOURCE
#include <complex.h>
#include <math.h>
#include <quadmath.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARTS 16

typedef struct {  // in double: used for searching only
    double s, l0, xc;
    int np, nq;
    double p[MAX_PARTS], a[MAX_PARTS], q[MAX_PARTS], r[MAX_PARTS];
} pair_double;

typedef struct {
    double left, right;   // where the terms matter
    double log_sum[2];    // logs of the sums of |terms| in the forms A and B (of B: with |e^(u l0)|), both over |Q|
    double top[2];        // logs of the largest exponents of e^(u L) Q and of e^(u (L-l0)) Q
} window;

typedef double _Complex dc;

static double log_add(double a, double b) {
    double m = fmax(a, b);
    return m == -INFINITY ? m : m + log(exp(a - m) + exp(b - m));
}

// log W, L - l0 and log den at z, following the branch: `im` is the imaginary part at the node before
static void loss_double(const pair_double *g, dc z, double im, dc *L, dc *lm, dc *ld, dc *x_out) {
    double i2 = 1 / (2 * g->s * g->s);
    dc v[MAX_PARTS];
    double top = 0;
    for (int i = 0; i < g->np; i++) {
        v[i] = g->a[i] * (2 * z - g->a[i]) * i2;
        top = fmax(top, creal(v[i]));
    }
    dc num = 0, den = 0;
    for (int i = 0; i < g->np; i++) num += g->p[i] * cexp(v[i] - top);
    double topd = 0;
    dc vd[MAX_PARTS];
    for (int i = 0; i < g->nq; i++) {
        vd[i] = g->r[i] * (2 * z - g->r[i]) * i2;
        topd = fmax(topd, creal(vd[i]));
    }
    for (int i = 0; i < g->nq; i++) den += g->q[i] * cexp(vd[i] - topd);
    *ld = clog(den) + topd;
    dc w = clog(num) - clog(den) + top - topd;
    double wi = cimag(w);
    wi += 2 * M_PI * rint((im - wi) / (2 * M_PI));
    *L = creal(w) + I * wi;
    *lm = *L - g->l0;
    *x_out = top - topd < 600 ? (num * exp(top - topd) / den) - 1 : INFINITY;
}

#define REACH 11.0

// The window and the sums of |terms| for one contour, on a coarse grid.
static void scan(const pair_double *g, dc u, double Y0, double m, double depth, window *w) {
    double s = g->s, s2 = s * s, reach = sqrt(2 * depth) * s / sqrt(1 - m * m) + s;
    double lo = 0, hi = 0;
    if (creal(u) < 0 && g->nq == 1) {  // the saddle on the left: z = u * (mean under the tilt), between u * a_max and 0
        double zl = creal(u) * g->a[g->np - 1], zr = 0;
        for (int it = 0; it < 200 && zr - zl > 1e-3 * s; it++) {
            double z = (zl + zr) / 2, t = 0, b = 0, top = -INFINITY;
            for (int i = 0; i < g->np; i++) top = fmax(top, g->a[i] * (2 * z - g->a[i]) / (2 * s2));
            for (int i = 0; i < g->np; i++) {
                double e = g->p[i] * exp(g->a[i] * (2 * z - g->a[i]) / (2 * s2) - top);
                t += e * g->a[i];
                b += e;
            }
            if (z - creal(u) * t / b < 0) zl = z; else zr = z;
        }
        lo = fmin(lo, zl);
    } else if (g->nq > 1) {
        lo = fmin(g->r[0], g->r[0] + creal(u - 1) * -g->r[0] * (creal(u) < 1));
    }
    double k = g->a[g->np - 1];
    double ec = s2 * Y0 - m * g->xc;
    double xb = creal((1 + I * m) * (u * k - I * ec)) / (1 - m * m);
    if (creal(u) > 0) {
        double x = fmax(xb, g->xc);
        dc z = x + I * (s2 * Y0 + m * fmax(x - g->xc, s2));
        dc L = k * (2 * z - k) / (2 * s2) + log(g->p[g->np - 1]);
        double e = creal(-z * z / (2 * s2) + u * L);
        double e0 = creal(u) * g->l0;
        if (e > fmin(e0, 0) - depth - 5) hi = fmax(hi, x);
        if (x <= g->xc) hi = fmax(hi, fmin(g->xc, reach));
    }
    lo -= reach;
    hi += reach;
    double h = fmin(s / 2, s2 * 0.6);
    if ((hi - lo) / h > 20000) h = (hi - lo) / 20000;
    int n = (int)((hi - lo) / h) + 1;
    double sa = -INFINITY, sb = -INFINITY, top0 = -INFINITY, top1 = -INFINITY;
    double *ea = malloc(sizeof(double) * (size_t)(n + 1)), *eb = malloc(sizeof(double) * (size_t)(n + 1));
    double im = 0;
    for (int i = 0; i <= n; i++) {
        double x = lo + i * h, X = (x - g->xc) / s2, root = sqrt(X * X + 4);
        double bend = X > 0 ? (X + root) / 2 : 2 / (root - X);
        dc z = x + I * s2 * (Y0 + m * bend), L, lm, ld, xx;
        loss_double(g, z, im, &L, &lm, &ld, &xx);
        im = cimag(L);
        double lq = creal(-z * z / (2 * s2) + ld), lj = log(cabs(1 + I * m * (1 + X / root) / 2));
        double e1 = creal(u * L) + lq, e2 = creal(u * lm) + lq;
        top0 = fmax(top0, e1);
        top1 = fmax(top1, e2);
        dc v = u * L, vb = u * lm;
        if (cabs(v) < 1e-2 && cabs(xx) < 1e-2) ea[i] = lq + log(cabs(u * (u - 1)) / 2 + 1e-300) + 2 * log(cabs(xx) + 1e-300);
        else if (creal(v) < 600 && cabs(xx) < 1e300) ea[i] = lq + log(cabs(cexp(v) - 1 - u * xx) + 1e-300);
        else ea[i] = log_add(e1, lq + log(cabs(u)) + creal(L));
        if (cabs(vb) < 1e-3) eb[i] = lq + log(cabs(vb) + 1e-300);
        else eb[i] = creal(vb) < 600 ? lq + log(cabs(cexp(vb) - 1)) : e2;
        ea[i] += lj;
        eb[i] += lj + creal(u) * g->l0;
        sa = log_add(sa, ea[i]);
        sb = log_add(sb, eb[i]);
    }
    double norm = log(h / (s * sqrt(2 * M_PI)));
    w->log_sum[0] = sa + norm;
    w->log_sum[1] = sb + norm;
    double *e = sa < sb ? ea : eb, top = -INFINITY;
    for (int i = 0; i <= n; i++) top = fmax(top, e[i]);
    int first = 0, last = n;
    while (first < n && e[first] < top - depth) first++;
    while (last > 0 && e[last] < top - depth) last--;
    w->left = lo + (first - 1) * h;
    w->right = lo + (last + 1) * h;
    w->top[0] = top0;
    w->top[1] = top1;
    free(ea);
    free(eb);
}

static double cost(const pair_double *g, dc u, double Y0, double m, double depth, window *w) {
    scan(g, u, Y0, m, depth, w);
    double c = fmin(w->log_sum[0], w->log_sum[1]);
    return isfinite(c) ? c : (c < 0 ? -1e300 : 1e300);
}

#define Y_MAX 2.9
#define M_MAX 0.85

static int allowed(double Y0, double m) { return Y0 >= 0 && m >= 0 && m <= M_MAX && Y0 + 1.5 * m < Y_MAX; }

// Pattern search for the contour with the smallest sum of |terms|.
static double search(const pair_double *g, dc u, double depth, double *Y0, double *m, window *w) {
    double best = 1e301, t = cimag(u), y1 = fmin(1.0, fabs(t) / 10 + 1e-6);
    double starts[9][2] = {{*Y0, *m}, {0, 0}, {y1, 0}, {0.8, 0.3}, {y1 / 100, 0.0}, {0.3, 0.6}, {1.4, 0.5}, {0.05, 0.8}, {1.0, 0.8}};
    double bY = *Y0, bm = *m;
    for (int i = 0; i < 9; i++) {
        double c = cost(g, u, starts[i][0], starts[i][1], depth, w);
        if (c < best) best = c, bY = starts[i][0], bm = starts[i][1];
    }
    double f = 2.0, d = 0.2;
    for (int round = 0; round < 14 && (f > 1.03 || d > 0.01); round++) {
        double try[6][2] = {{bY * f, bm}, {bY / f, bm}, {bY, bm + d}, {bY, bm - d}, {bY + d, bm}, {bY - d, bm}};
        int moved = 0;
        for (int i = 0; i < 6; i++) {
            double Y = try[i][0], mm = fmax(0, try[i][1]);
            if (Y < 0) Y = 0;
            if (!allowed(Y, mm) || (Y == bY && mm == bm)) continue;
            double c = cost(g, u, Y, mm, depth, w);
            if (c < best - 1e-3) best = c, bY = Y, bm = mm, moved = 1;
        }
        if (!moved) f = sqrt(f), d /= 2;
    }
    *Y0 = bY;
    *m = bm;
    cost(g, u, bY, bm, depth, w);
    return best;
}

typedef struct {
    int direction;       // +1 remove, -1 add
    double b, mu, shift; // angle, size in widths, vertex off the saddle in widths
    double hz, yoff, moff;
} contour;

typedef struct {
    char value[64], log_scale[64];
    double slope, ledger, halving, c, width;
    int n_u, ok;
    long n_z;
} answer;

#define REAL long double
#define COMPLEX long double _Complex
#define F(name) name##l
#define NAME(name) name##_long
#define EPS 5.4e-20
#define DEPTH 54.0
#define READ(s) strtold(s, NULL)
#include __FILE__
#undef REAL
#undef COMPLEX
#undef F
#undef NAME
#undef EPS
#undef DEPTH
#undef READ
#define REAL __float128
#define COMPLEX __complex128
#define F(name) name##q
#define NAME(name) name##_quad
#define EPS 9.6e-35
#define DEPTH 86.0
#define READ(s) strtoflt128(s, NULL)
#include __FILE__

static double parse(const char *s) { return strtod(s, NULL); }

// A job: id bits(64|113) direction(1|-1) kind n eps-or-delta-word b mu shift hz yoff moff kind-arguments
//   kind sgm:     sigma q            the sampled Gaussian against the Gaussian
//   kind group:   sigma q k          Binomial(k, q) mixture against the Gaussian
//   kind replace: sigma q            (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1)
// The word is eps=<float>, or delta=<float> to have the eps chosen (saddle-point approximation, remove direction).
// Answer: id eps value log_scale slope ledger halving c width n_u n_z ok
int main(void) {
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        char *f[64];
        int n = 0;
        for (char *t = strtok(line, " \n"); t && n < 64; t = strtok(NULL, " \n")) f[n++] = t;
        if (n < 14) continue;
        contour k = {atoi(f[2]), parse(f[6]), parse(f[7]), parse(f[8]), parse(f[9]), parse(f[10]), parse(f[11])};
        answer a;
        memset(&a, 0, sizeof a);
        double eps;
        if (!strncmp(f[5], "delta=", 6)) {
            pair_long g;
            set_pair_long(&g, f[3], f + 12);
            eps = epsilon_near_long(&g, parse(f[4]), parse(f[5] + 6));
            printf("%s %.17g\n", f[0], eps);
            fflush(stdout);
            continue;
        }
        eps = parse(f[5] + 4);
        if (atoi(f[1]) == 64) {
            pair_long g;
            set_pair_long(&g, f[3], f + 12);
            profile_long(&g, parse(f[4]), eps, &k, &a);
        } else {
            pair_quad g;
            set_pair_quad(&g, f[3], f + 12);
            profile_quad(&g, parse(f[4]), eps, &k, &a);
        }
        printf("%s %.17g %s %s %.17g %.3e %.3e %.10g %.4g %d %ld %d\n", f[0], eps, a.value, a.log_scale, a.slope, a.ledger,
               a.halving, a.c, a.width, a.n_u, a.n_z, a.ok);
        fflush(stdout);
    }
    return 0;
}

#else  // ---- the sums, once for each arithmetic ----

typedef struct {
    REAL s, l0;
    int np, nq;
    REAL p[MAX_PARTS], a[MAX_PARTS], q[MAX_PARTS], r[MAX_PARTS];
    pair_double d;
} NAME(pair);

static COMPLEX NAME(make)(REAL x, REAL y) {
    COMPLEX z;
    __real__ z = x;
    __imag__ z = y;
    return z;
}

static COMPLEX NAME(c_exp)(COMPLEX z) {
    REAL s, c, e = F(exp)(__real__ z);
    F(sincos)(__imag__ z, &s, &c);
    return NAME(make)(e * c, e * s);
}

static COMPLEX NAME(c_expm1)(COMPLEX z) {
    REAL s, c, s2, c2, m = F(expm1)(__real__ z), y = __imag__ z;
    if (y == 0) return NAME(make)(m, 0);
    F(sincos)(y / 2, &s2, &c2);
    s = 2 * s2 * c2;
    c = 2 * s2 * s2;
    return NAME(make)(m * (1 - c) - c, (m + 1) * s);
}

static REAL NAME(norm2)(COMPLEX z) { return __real__ z * __real__ z + __imag__ z * __imag__ z; }

static COMPLEX NAME(c_log1p)(COMPLEX z) {  // principal
    REAL a = __real__ z, b = __imag__ z, n = NAME(norm2)(z);
    REAL re = n < (REAL)0.25 ? F(log1p)(2 * a + n) / 2 : F(log)((1 + a) * (1 + a) + b * b) / 2;
    return NAME(make)(re, F(atan2)(b, 1 + a));
}

static COMPLEX NAME(c_log)(COMPLEX z) {
    return NAME(make)(F(log)(NAME(norm2)(z)) / 2, F(atan2)(__imag__ z, __real__ z));
}

// log1p(x) - x for |x| <= 0.3
static COMPLEX NAME(log1p_less)(COMPLEX x) {
    COMPLEX s = x / (2 + x), t = s * s, sum = 0;
    double size = (double)NAME(norm2)(t);
    int n = size == 0 ? 1 : (int)(log(EPS) / (0.5 * log(size))) + 2;
    for (int k = n; k >= 1; k--) sum = sum * t + (REAL)1 / (2 * k + 1);
    return -x * s + 2 * s * t * sum;
}

// exp(w) - 1 - w for |w| <= 0.3
static COMPLEX NAME(exp_less)(COMPLEX w) {
    int n = EPS > 1e-25 ? 14 : 24;
    COMPLEX sum = 1;
    for (int k = n; k >= 3; k--) sum = 1 + sum * w / k;
    return w * w / 2 * sum;
}

static void NAME(set_pair)(NAME(pair) * g, const char *kind, char **f) {
    memset(g, 0, sizeof *g);
    g->s = READ(f[0]);
    REAL q = READ(f[1]);
    g->nq = 1;
    g->q[0] = 1;
    if (!strcmp(kind, "group")) {
        int k = atoi(f[2]);
        g->np = k + 1;
        for (int i = 0; i <= k; i++) {
            REAL w = 1;
            for (int j = 1; j <= i; j++) w = w * (k - i + j) / j * q;
            for (int j = 0; j < k - i; j++) w *= 1 - q;
            g->p[i] = w;
            g->a[i] = i;
        }
        g->l0 = k * F(log1p)(-q);
    } else {
        g->np = 2;
        g->p[0] = 1 - q, g->a[0] = 0, g->p[1] = q, g->a[1] = 1;
        g->l0 = F(log1p)(-q);
        if (!strcmp(kind, "replace")) g->nq = 2, g->l0 = 0, g->q[0] = q, g->r[0] = -1, g->q[1] = 1 - q, g->r[1] = 0;
    }
    pair_double *d = &g->d;
    d->s = (double)g->s, d->l0 = (double)g->l0, d->np = g->np, d->nq = g->nq, d->xc = -1e300;
    for (int i = 0; i < g->np; i++) d->p[i] = (double)g->p[i], d->a[i] = (double)g->a[i];
    for (int i = 0; i < g->nq; i++) d->q[i] = (double)g->q[i], d->r[i] = (double)g->r[i];
    for (int i = 1; i < g->np; i++)
        d->xc = fmax(d->xc, (d->a[i] + d->a[i - 1]) / 2 + d->s * d->s * log(d->p[i - 1] / d->p[i]) / (d->a[i] - d->a[i - 1]));
}

typedef struct {
    COMPLEX L, lm, ld, x;  // log W, L - l0, log den, W - 1
    int small_x, small_r, big;
} NAME(node);

static void NAME(loss)(const NAME(pair) * g, COMPLEX z, REAL im, NAME(node) * o) {
    REAL i2 = 1 / (2 * g->s * g->s);
    COMPLEX v[MAX_PARTS], e[MAX_PARTS], ed[MAX_PARTS];
    REAL top = 0;
    for (int i = 0; i < g->np; i++) {
        v[i] = g->a[i] * (2 * z - g->a[i]) * i2;
        if (__real__ v[i] > top) top = __real__ v[i];
    }
    for (int i = 0; i < g->nq; i++) {
        REAL t = g->r[i] * (2 * __real__ z - g->r[i]) * i2;
        if (t > top) top = t;
    }
    o->big = top > 3000;
    o->small_x = o->small_r = 0;
    COMPLEX diff = 0, rest = 0, den = 1, lw;
    o->ld = 0;
    if (!o->big) {
        for (int i = 0; i < g->np; i++) {
            e[i] = g->a[i] == 0 ? NAME(make)(0, 0) : NAME(c_expm1)(v[i]);
            diff += g->p[i] * e[i];
            if (g->a[i] != 0) rest += g->p[i] * (1 + e[i]);
        }
        COMPLEX num = 1 + diff;
        if (g->nq > 1) {
            COMPLEX dd = 0;
            for (int i = 0; i < g->nq; i++) {
                ed[i] = g->r[i] == 0 ? NAME(make)(0, 0) : NAME(c_expm1)(g->r[i] * (2 * z - g->r[i]) * i2);
                dd += g->q[i] * ed[i];
            }
            den = 1 + dd;
            if (NAME(norm2)(dd) > (REAL)0.09) {  // sum of the parts, as they are
                den = 0;
                for (int i = 0; i < g->nq; i++) den += g->q[i] * (1 + ed[i]);
                o->ld = NAME(c_log)(den);
            } else {
                o->ld = NAME(c_log1p)(dd);
            }
            o->x = (diff - dd) / den;
        } else {
            o->x = diff;
        }
        REAL nx = NAME(norm2)(o->x);
        if (nx < (REAL)0.09) {
            o->small_x = 1;
            lw = o->x + NAME(log1p_less)(o->x);
        } else {
            if (NAME(norm2)(diff) > (REAL)0.09) {
                num = 0;
                for (int i = 0; i < g->np; i++) num += g->p[i] * (1 + e[i]);
            }
            lw = NAME(c_log)(num) - o->ld;
        }
    } else {
        COMPLEX num = 0;
        REAL tn = 0;
        for (int i = 0; i < g->np; i++)
            if (__real__ v[i] > tn) tn = __real__ v[i];
        for (int i = 0; i < g->np; i++) num += g->p[i] * NAME(c_exp)(v[i] - tn);
        if (g->nq > 1) {
            den = 0;
            REAL td = 0;
            for (int i = 0; i < g->nq; i++) {
                REAL t = g->r[i] * (2 * __real__ z - g->r[i]) * i2;
                if (t > td) td = t;
            }
            for (int i = 0; i < g->nq; i++) den += g->q[i] * NAME(c_exp)(g->r[i] * (2 * z - g->r[i]) * i2 - td);
            o->ld = NAME(c_log)(den) + td;
        }
        lw = NAME(c_log)(num) + tn - o->ld;
        o->x = 0;
    }
    REAL two_pi = 2 * F(acos)((REAL)-1);
    if (!o->small_x) __imag__ lw += two_pi * F(rint)((im - __imag__ lw) / two_pi);
    o->L = lw;
    o->lm = lw - g->l0;
    if (g->nq == 1 && !o->big) {
        COMPLEX r = rest / g->p[0];
        if (NAME(norm2)(r) < (REAL)0.09) {
            o->small_r = 1;
            o->lm = r + NAME(log1p_less)(r);
        }
    } else if (g->nq > 1) {
        o->small_r = o->small_x;
    }
}

typedef struct {
    COMPLEX log_m;  // relatively accurate log M, or log M - u l0 in form B
    int form;       // 0 A, 1 B
    double amp;     // sum of |terms| over |M|
    double alias;   // difference between the two half-rate sums, over |M|
    long n;
} NAME(moment);

static void NAME(sum)(const NAME(pair) * g, COMPLEX u, double Y0, double m, double h, const window *w, NAME(moment) * o) {
    REAL s2 = g->s * g->s, i2 = 1 / (2 * s2), Y = Y0, mm = m, xc = g->d.xc;
    int form = w->log_sum[0] <= w->log_sum[1] ? 0 : 1;
    REAL scale = w->top[form] > 30 ? w->top[form] : 0;
    long n = (long)((w->right - w->left) / h) + 1;
    COMPLEX sums[2] = {0, 0};
    REAL total = 0, im = 0, start = w->left;
    for (long i = 0; i <= n; i++) {
        REAL x = start + i * (REAL)h, X = (x - xc) / s2, root = F(sqrt)(X * X + 4);
        REAL bend = X > 0 ? (X + root) / 2 : 2 / (root - X);
        COMPLEX z = NAME(make)(x, s2 * (Y + mm * bend)), jac = NAME(make)(1, mm * (1 + X / root) / 2), term;
        NAME(node) k;
        NAME(loss)(g, z, im, &k);
        im = __imag__ k.L;
        COMPLEX lq = -z * z * i2 + k.ld - scale;
        if (form == 0) {
            COMPLEX v = u * k.L;
            if (k.small_x && NAME(norm2)(v) < (REAL)0.09)
                term = NAME(c_exp)(lq) * (NAME(exp_less)(v) + u * NAME(log1p_less)(k.x));
            else if (k.big)
                term = NAME(c_exp)(v + lq) - NAME(c_exp)(lq) * (1 - u) - u * NAME(c_exp)(lq + k.L);
            else
                term = NAME(c_exp)(v + lq) - NAME(c_exp)(lq) * (1 + u * k.x);
        } else {
            COMPLEX v = u * k.lm;
            if (k.small_r && NAME(norm2)(v) < (REAL)0.09) term = NAME(c_exp)(lq) * NAME(c_expm1)(v);
            else term = NAME(c_exp)(v + lq) - NAME(c_exp)(lq);
        }
        term *= jac;
        sums[i & 1] += term;
        total += F(sqrt)(NAME(norm2)(term));
    }
    REAL norm = (REAL)h / (g->s * F(sqrt)(2 * F(acos)((REAL)-1)));
    COMPLEX sum = (sums[0] + sums[1]) * norm, gap = (sums[0] - sums[1]) * norm;
    REAL unit = F(exp)(-scale);
    COMPLEX log_m = scale > 0 ? NAME(c_log)(unit + sum) + scale : NAME(c_log1p)(sum);
    REAL size = F(sqrt)(NAME(norm2)(unit + sum));
    o->log_m = log_m;
    o->form = form;
    o->amp = (double)(total * norm / size);
    o->alias = (double)(F(sqrt)(NAME(norm2)(gap)) / size);
    o->n = n + 1;
}

// K, K', K'' and K - u l0 at a real order, for the saddle
static void NAME(real_moment)(const NAME(pair) * g, REAL u, REAL out[4]) {
    window w;
    scan(&g->d, (double)u, 0, 0, 45, &w);
    double s = (double)g->s;
    double h = fmin(0.35 * s, 0.2 * s * s);
    if ((w.right - w.left) / h > 100000) h = (w.right - w.left) / 100000;
    int form = w.log_sum[0] <= w.log_sum[1] ? 0 : 1;
    REAL scale = w.top[0] > 30 ? w.top[0] : 0, i2 = 1 / (2 * g->s * g->s);
    long n = (long)((w.right - w.left) / h) + 1;
    REAL s0 = 0, s1 = 0, s2 = 0;
    for (long i = 0; i <= n; i++) {
        REAL x = w.left + i * h;
        NAME(node) k;
        NAME(loss)(g, NAME(make)(x, 0), 0, &k);
        REAL L = __real__ k.L, lq = -x * x * i2 + __real__ k.ld, e = F(exp)(u * L + lq - scale), q = F(exp)(lq - scale), v = u * L;
        REAL d = k.big ? F(exp)(L + lq - scale) - q : q * __real__ k.x;
        if (form == 0) {
            s0 += k.small_x && F(fabs)(v) < (REAL)0.3 ? q * (__real__ NAME(exp_less)(NAME(make)(v, 0)) + u * __real__ NAME(log1p_less)(k.x))
                                                     : e - q - u * d;
            s1 += k.small_x ? q * (F(expm1)(v) * L + __real__ NAME(log1p_less)(k.x)) : e * L - d;
            s2 += e * L * L;
        } else {
            REAL l = __real__ k.lm;
            e = F(exp)(u * l + lq), q = F(exp)(lq);
            s0 += k.small_r ? q * F(expm1)(u * l) : e - q;
            s1 += e * l;
            s2 += e * l * l;
        }
    }
    REAL norm = h / (g->s * F(sqrt)(2 * F(acos)((REAL)-1)));
    REAL m = (form == 0 ? F(exp)(-scale) : 1) + s0 * norm;
    if (form == 0) {
        out[0] = scale > 0 ? F(log)(m) + scale : F(log1p)(s0 * norm);
        out[1] = s1 * norm / m;
        out[2] = s2 * norm / m - out[1] * out[1];
        out[3] = out[0] - u * g->l0;
    } else {
        REAL l1 = s1 * norm / m;
        out[3] = F(log1p)(s0 * norm);
        out[0] = u * g->l0 + out[3];
        out[1] = g->l0 + l1;
        out[2] = s2 * norm / m - l1 * l1;
    }
}

// G(c), the log of the integrand at a real c, and its derivatives; remove: less the part that integrates to 0
static void NAME(exponent)(const NAME(pair) * g, double n, double eps, int direction, REAL c, REAL out[3]) {
    REAL k[4];
    NAME(real_moment)(g, c, k);
    REAL e = direction > 0 ? -(c - 1) * eps : c * eps, rest = 0, first = n * (k[1] - g->l0), second = n * k[2];
    if (direction > 0 && n * k[3] < 60) {
        REAL d = n * k[3], r = -F(expm1)(-d);
        rest = F(log)(r);
        second = second / r - first * first * (1 - r) / (r * r);
        first /= r;
    }
    out[0] = n * k[0] + rest + e - F(log)(c * (c - 1));
    out[1] = n * g->l0 + first - direction * (REAL)eps - 1 / c - 1 / (c - 1);
    out[2] = second + 1 / (c * c) + 1 / ((c - 1) * (c - 1));
}

static REAL NAME(saddle)(const NAME(pair) * g, double n, double eps, int direction, REAL out[3]) {
    double lo = -60, hi = 60, y = 0;
    for (int i = 0; i < 200; i++) {
        y = i == 0 ? 0 : (lo + hi) / 2;
        if (i > 0 && i < 12) y = lo == -60 ? hi - i : (hi == 60 ? lo + i : y);
        REAL c = direction > 0 ? 1 + F(exp)((REAL)y) : -F(exp)((REAL)y);
        NAME(exponent)(g, n, eps, direction, c, out);
        int rising = direction > 0 ? out[1] > 0 : out[1] < 0;
        if (rising) hi = y; else lo = y;
        if (hi - lo < 1e-3) break;
    }
    REAL c = direction > 0 ? 1 + F(exp)((REAL)y) : -F(exp)((REAL)y);
    NAME(exponent)(g, n, eps, direction, c, out);
    return c;
}

// The eps at which the saddle-point approximation of the remove direction is delta (negative where there is none).
__attribute__((unused)) static double NAME(epsilon_near)(const NAME(pair) * g, double n, double delta) {
    double lo = -60, hi = 60, eps = -1;
    for (int i = 0; i < 60; i++) {
        double y = (lo + hi) / 2;
        if (i < 12) y = lo == -60 && hi == 60 ? 0 : (lo == -60 ? hi - i : (hi == 60 ? lo + i : y));
        REAL o[3], c = 1 + F(exp)((REAL)y);
        NAME(exponent)(g, n, 0, 1, c, o);
        eps = (double)o[1];
        REAL g0 = o[0] - (c - 1) * o[1], g2 = o[2];
        if ((double)(g0 - F(log)(2 * F(acos)((REAL)-1) * g2) / 2) > log(delta)) lo = y; else hi = y;
        if (hi - lo < 1e-4) break;
    }
    return eps;
}

static void NAME(profile)(const NAME(pair) * g, double n, double eps, const contour *k, answer *a) {
    REAL top[3];
    REAL c = NAME(saddle)(g, n, eps, k->direction, top), width = 1 / F(sqrt)(top[2]);
    REAL pi = F(acos)((REAL)-1), b = k->b * pi / 180, mu = k->mu * width;
    c += k->shift * width * k->direction;
    REAL cb = F(cos)(b), sb = F(sin)(b);
    double s = (double)g->s, h0 = fmin(0.3 * s, 0.125 * s * s) * k->hz;
    // f(u) du/dth at one node
    double Y0 = 0, m = 0;
    COMPLEX sum[3] = {0, 0, 0};  // of f u', of the derivative in eps, unused
    REAL abs_sum = 0, biggest = 0;
    double ledger = 0, halving = 1;
    REAL step = (REAL)0.125, last = 0;
    int level, n_u = 0, bad = 0;
    long n_z = 0;
    double theta_max = 60;
    for (level = 0; level < 9; level++) {
        double warm_y = 0, warm_m = 0;
        int quiet = 0;
        REAL previous = 1;
        for (long i = level == 0 ? 0 : 1;; i += level == 0 ? 1 : 2) {
            REAL th = i * step;
            if ((double)th > theta_max) break;
            REAL ch = F(cosh)(th), sh = F(sinh)(th), hs = F(sinh)(th / 2);
            COMPLEX du = NAME(make)(2 * mu * cb * hs * hs, mu * sb * sh);  // u - c
            COMPLEX u = c + du, slope = NAME(make)(mu * cb * sh, mu * sb * ch), value;
            NAME(moment) o;
            window w;
            dc ud = (double)__real__ u + I * (double)__imag__ u;
            Y0 = warm_y, m = warm_m;
            double h = h0;
            REAL size = 0;
            double err_round = 0, err_alias = 0, target = 0;
            for (int attempt = 0; attempt < 6; attempt++) {
                if (attempt == 0) cost(&g->d, ud, Y0, m, DEPTH, &w);
                if (attempt == 1) {
                    search(&g->d, ud, DEPTH, &Y0, &m, &w);
                    if (k->yoff != 0 || k->moff != 0) {
                        double Y1 = Y0 * (1 + k->yoff), m1 = fmax(0, m + k->moff);
                        if (allowed(Y1, m1)) Y0 = Y1, m = m1, cost(&g->d, ud, Y0, m, DEPTH, &w);
                    }
                }
                if (attempt > 1) h /= 1.6;
                NAME(sum)(g, u, Y0, m, h, &w, &o);
                n_z += o.n;
                // remove: less the part exp(u (n l0 - eps) + eps), which integrates to 0 and would only cancel
                COMPLEX e = n * o.log_m, base = u * (n * g->l0 - k->direction * (REAL)eps) - top[0];
                if (k->direction > 0) base += eps;
                if (o.form) {
                    value = k->direction > 0 ? NAME(c_exp)(base) * NAME(c_expm1)(e) : NAME(c_exp)(base + e);
                    if (k->direction > 0 && __real__ e > 1) value = NAME(c_exp)(base + e) - NAME(c_exp)(base);
                } else {
                    value = NAME(c_exp)(e - (k->direction > 0 ? u - 1 : -u) * eps - top[0]);
                    if (k->direction > 0) value -= NAME(c_exp)(base);
                }
                value *= slope / (u * (u - 1));
                size = F(sqrt)(NAME(norm2)(value));
                double phase = (double)(F(sqrt)(NAME(norm2)(u)) * (o.form ? F(fabs)(n * g->l0) + eps : eps));
                err_round = (double)size * EPS * (2 * n * o.amp + phase + 4);
                err_alias = (double)size * n * o.alias * o.alias / fmin(o.amp, 1);
                target = (double)(abs_sum + size) * EPS * 10;
                double worst_alias = (double)size * n * o.alias;
                if (attempt == 0 && (err_round > target || err_alias > target || o.alias > 1e-3)) continue;
                if (attempt >= 1 && ((err_alias > target && worst_alias > target) || o.alias > 1e-3)) continue;
                break;
            }
            warm_y = Y0, warm_m = m;
            n_u++;
            if (!(size < INFINITY)) {  // far out, where nothing is left to sum
                if (previous > biggest * (REAL)1e-15) {
                    bad = 1;
                    break;
                }
                value = 0, size = previous, err_round = (double)previous, err_alias = 0;
            }
            previous = size;
            REAL half = i == 0 ? (REAL)0.5 : 1;
            sum[0] += half * value;
            sum[1] += half * value * (k->direction > 0 ? -(u - 1) : u);
            abs_sum += half * size;
            ledger += (err_round + err_alias);
            if (size > biggest) biggest = size;
            quiet = size < biggest * EPS / 20 ? quiet + 1 : 0;
            if (level == 0 && quiet >= 3) {
                theta_max = (double)th;
                break;
            }
        }
        if (bad) break;
        REAL now = __imag__ sum[0] * step / pi;
        if (level > 0) {
            halving = (double)F(fabs)(1 - last / now);
            if (halving < sqrt(EPS) * 0.01 && level > 0) break;
        }
        last = now;
        step /= 2;
    }
    REAL value = __imag__ sum[0] * step / pi;
    a->slope = (double)(__imag__ sum[1] / __imag__ sum[0]);
    a->ledger = (double)(ledger * step / pi / F(fabs)(value));
    a->halving = halving;
    a->c = (double)c;
    a->width = (double)width;
    a->n_u = n_u;
    a->n_z = n_z;
    a->ok = !bad && level < 9 && value > 0;
    quadmath_snprintf(a->value, sizeof a->value, "%.36Qg", (__float128)value);
    quadmath_snprintf(a->log_scale, sizeof a->log_scale, "%.36Qg", (__float128)top[0]);
}

#endif
