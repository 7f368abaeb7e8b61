// Exact privacy profile of the T-fold composition of a pair of one-dimensional Gaussian mixtures, for test data.
//
// With L = log dP/dQ, W = dP/dQ, M(u) = E_Q[W^u] and n steps, the two directions are Bromwich integrals (the integrand
// is conjugate at conjugate points, so twice the upper half is taken):
//
//     remove  delta(eps) = 1/(2 pi i) Int exp(n log M(u) - (u-1) eps) / (u (u-1)) du      right of 1
//     add     delta(eps) = 1/(2 pi i) Int exp(n log M(u) +  u    eps) / (u (u-1)) du      left of 0
//
// Contour: u(th) = c - mu cos b + mu cosh(th + i b), a hyperbola whose vertex c is at or near the saddle and whose arms
// open to the right, by the trapezoidal rule in th, halved until it stands still.
//
// M(u) by the trapezoidal rule along z = x + i s^2 Y(x), Y = Y0 + m (X + sqrt(X^2+4))/2, X = (x-xc)/s^2; Y0 and m are
// searched for each u so that the sum of the absolute values of the terms is small: rounding errors are proportional
// to it. Two forms keep M relatively accurate for large n; the one with the smaller sum is used (l0 is the log of the
// weight that P gives to the mean of Q):
//
//     A  M = 1 + E_Q[W^u - 1 - u (W-1)]                      B  M = e^(u l0) (1 + E_Q[e^(u (L-l0)) - 1])
//
// In the remove direction e^(n l0 u - (u-1) eps) / (u (u-1)), which integrates to 0, is subtracted first. Where few
// records take part and one of them makes the loss (sums of heavy-tailed losses), the integrand at its saddle is still
// orders of magnitude above delta and everything cancels. There M is split smoothly at z = zb, M = M_s + M_b with
//
//     M_s(u) = E_Q[chi W^u],   chi(z) = erfc(t + t^3/30) / 2,   t = (z - zb) / wide,
//
// and M_s^n and M^n - M_s^n (no large loss; at least one) are integrated along a contour each. zb and wide are chosen
// to make the sum of the two integrands at their saddles small.
//
// The file compiles the sums twice: in 80-bit and in 128-bit arithmetic. Errors are estimated, not bounded: the driver
// compares runs with different contours, steps and splits.
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
#define MAX_LEVELS 9
#define DEAD 7.5  // chi is below e^-400 beyond this t, and taken as 0 however the contour goes on
#define MAX_INTERVALS 6
#define MAX_NODES 20000000  // give up

// Settings of large samples, by a line `set loose work least` in the input; 0 and infinity otherwise.
static double loose = 0;               // about the relative error that is good enough, where it is above the arithmetic's
static double work_limit = INFINITY;  // nodes a job may take, with those of all searches
static double least = -INFINITY;      // log of a delta that is of no interest: then ok is 2
static double work;                   // that it has taken

#define MAX_MORE 16
static int n_more;  // other eps of the same job, near its eps: integrated along the same nodes
static double more[MAX_MORE];

typedef double _Complex dc;

typedef struct {  // in double: used for searching only
    double s, l0, xc;
    int np, nq;
    double p[MAX_PARTS], a[MAX_PARTS], q[MAX_PARTS], r[MAX_PARTS];
} pair_double;

typedef struct {
    int on;  // 0 no split, 1 M_s only, 2 M_b too
    double zb, wide;  // where chi is 1/2, and over what length it falls
} split;

enum { PLAIN, SMALL_ONLY, SOME_LARGE };  // M^n, M_s^n, M^n - M_s^n

typedef struct {
    double n, eps;
    int direction, mode;
    split cut;
} problem;

typedef struct {
    double left, right;   // where the terms matter,
    int n_parts;          // in these intervals, with Im L at the start of each
    double part[MAX_INTERVALS][3];
    double rate;          // largest change of the phase of the terms, per unit of x
    double log_sum[3];    // logs of the sums of |terms|: M in the forms A and B (with |e^(u l0)|), and M_b
    double top[3];        // logs of the largest |e^(u L) Q|, |e^(u (L-l0)) Q| and |(1-chi) e^(u L) Q|
} window;

static double log_add(double a, double b) {
    double m = fmax(a, b);
    return m == -INFINITY ? m : m + log(exp(a - m) + exp(b - m));
}

// L, its derivative, L - l0, log(dQ/dN(0, s^2)), its derivative and W - 1 at z, following the branch: `im` is Im L at the node before
static void loss_double(const pair_double *g, dc z, double im, dc *L, dc *dL, dc *lm, dc *ld, dc *dld, dc *x_out) {
    double i2 = 1 / (2 * g->s * g->s), top = 0, topd = 0;
    dc v[MAX_PARTS], vd[MAX_PARTS], num = 0, den = 0;
    for (int i = 0; i < g->np; i++) {
        v[i] = g->a[i] * (2 * z - g->a[i]) * i2;
        top = fmax(top, creal(v[i]));
    }
    *dL = *dld = 0;
    for (int i = 0; i < g->np; i++) {
        dc t = g->p[i] * cexp(v[i] - top);
        num += t, *dL += t * g->a[i];
    }
    for (int i = 0; i < g->nq; i++) {
        vd[i] = g->r[i] * (2 * z - g->r[i]) * i2;
        topd = fmax(topd, creal(vd[i]));
    }
    for (int i = 0; i < g->nq; i++) {
        dc t = g->q[i] * cexp(vd[i] - topd);
        den += t, *dld += t * g->r[i];
    }
    *ld = clog(den) + topd;
    *dld *= 2 * i2 / den;
    *dL = *dL * 2 * i2 / num - *dld;
    dc w = clog(num) - clog(den) + top - topd;
    double wi = cimag(w);
    wi += 2 * M_PI * rint((im - wi) / (2 * M_PI));
    *L = creal(w) + I * wi;
    *lm = *L - g->l0;
    *x_out = top - topd < 600 ? (num * exp(top - topd) / den) - 1 : INFINITY;
}

// Where the terms may be: around 0, around the saddle on the left (Re u < 0), around the one on the right (Re u > 0).
static void hull(const pair_double *g, dc u, double Y0, double m, double depth, double *lo, double *hi) {
    double s = g->s, s2 = s * s, reach = sqrt(2 * depth) * s / sqrt(1 - m * m) + s;
    *lo = *hi = 0;
    if (creal(u) < 0 && g->nq == 1) {  // z = u * (mean under the tilt), between u * a_max and 0
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
        *lo = fmin(*lo, zl);
    } else if (g->nq > 1) {
        *lo = fmin(g->r[0], creal(u) < 1 ? g->r[0] * creal(2 - u) : 0);
    }
    if (creal(u) > 0) {
        double k = g->a[g->np - 1], ec = s2 * Y0 - m * g->xc;
        double x = fmax(creal((1 + I * m) * (u * k - I * ec)) / (1 - m * m), g->xc);
        dc z = x + I * (s2 * Y0 + m * fmax(x - g->xc, s2)), L = k * (2 * z - k) / (2 * s2) + log(g->p[g->np - 1]);
        if (creal(-z * z / (2 * s2) + u * L) > fmin(creal(u) * g->l0, 0) - depth - 5) *hi = fmax(*hi, x);
        if (x <= g->xc) *hi = fmax(*hi, fmin(g->xc, reach));
    }
    *lo -= reach;
    *hi += reach;
}

// The window and the sums of |terms| for one contour, on a coarse grid.
static void scan(const pair_double *g, const split *cut, dc u, double Y0, double m, double depth, window *w) {
    double s = g->s, s2 = s * s, lo, hi;
    hull(g, u, Y0, m, depth, &lo, &hi);
    if (cut->on == 1) hi = fmin(hi, cut->zb + DEAD * cut->wide + s);
    if (cut->on == 2) hi = fmax(hi, cut->zb + sqrt(2 * depth) * s);
    double h = fmin(s / 2, s2 * 0.6);
    if (cut->on) h = fmin(h, 0.5 * cut->wide);
    if ((hi - lo) / h > 20000) h = (hi - lo) / 20000;
    int n = (int)((hi - lo) / h) + 1;
    work += 0.5 * n;
    double *e = malloc(sizeof(double) * 7 * (size_t)(n + 1)), sums[3], im = 0;
    for (int k = 0; k < 3; k++) sums[k] = w->top[k] = -INFINITY;
    for (int i = 0; i <= n; i++) {
        double x = lo + i * h, X = (x - g->xc) / s2, root = sqrt(X * X + 4), lc = 0, lc1 = -1e9;
        double bend = X > 0 ? (X + root) / 2 : 2 / (root - X);
        dc z = x + I * s2 * (Y0 + m * bend), L, lm, ld, xx, dL, dld, dz = 1 + I * m * (1 + X / root) / 2;
        loss_double(g, z, im, &L, &dL, &lm, &ld, &dld, &xx);
        e[7 * i + 4] = cimag(L);
        e[7 * i + 3] = fabs(cimag((u * dL - z / s2 + dld) * dz));
        im = cimag(L);
        if (cut->on) {
            dc t = (z - cut->zb) / cut->wide;
            int dead = creal(t) > DEAD;
            t *= 1 + t * t / 30;
            double small = -creal(t * t) - log(2 + 3.5 * cabs(t));  // log|erfc(t)/2| for Re t > 0, roughly
            lc = creal(t) > 0 ? small : log_add(0, small), lc1 = creal(t) > 0 ? log_add(0, small) : small;
            if (dead) lc = -1e9, lc1 = 0;
        }
        double lq = creal(-z * z / (2 * s2) + ld), lj = log(cabs(dz));
        double e1 = creal(u * L) + lq + lc, e2 = creal(u * lm) + lq + lc, *o = e + 7 * i;
        dc v = u * L, vb = u * lm;
        if (cabs(v) < 1e-2 && cabs(xx) < 1e-2)
            o[0] = log_add(lc + log(cabs(u * (u - 1)) / 2 + 1e-300) + 2 * log(cabs(xx) + 1e-300), lc1 + log(cabs(1 + u * xx)));
        else if (creal(v) < 600 && cabs(xx) < 1e300) o[0] = log_add(lc + log(cabs(cexp(v) - 1 - u * xx) + 1e-300), lc1 + log(cabs(1 + u * xx) + 1e-300));
        else o[0] = log_add(creal(v) + lc, log(cabs(u)) + creal(L));
        o[1] = log_add(lc + (creal(vb) > 600 ? creal(vb) : log(cabs(cabs(vb) < 1e-3 ? vb : cexp(vb) - 1) + 1e-300)), lc1);
        o[2] = creal(v) + lc1;
        w->top[0] = fmax(w->top[0], e1);
        w->top[1] = fmax(w->top[1], e2);
        w->top[2] = fmax(w->top[2], o[2] + lq);
        o[1] += creal(u) * g->l0;
        o[5] = fmax(creal(v) + lq + lj + lc, creal(v) + lq + lj + lc1);
        o[6] = fabs(cimag((1 - z) * dz)) / s2;
        for (int k = 0; k < 3; k++) o[k] += lj + lq, sums[k] = log_add(sums[k], o[k]);
    }
    double norm = log(h / (s * sqrt(2 * M_PI)));
    for (int k = 0; k < 3; k++) w->log_sum[k] = sums[k] + norm;
    int use[2] = {sums[0] < sums[1] ? 0 : 1, 2}, n_use = cut->on == 2 ? 2 : 1;
    w->rate = 0, w->n_parts = 0;
    double least[2];
    for (int j = 0; j < n_use; j++) {
        double top = -INFINITY;
        for (int i = 0; i <= n; i++) top = fmax(top, e[7 * i + use[j]]);
        least[j] = top - depth;
        for (int i = 0; i <= n; i++)
            if (e[7 * i + use[j]] > top - depth * 0.9)  // where W^u itself is too small to matter, its phase is, too
                w->rate = fmax(w->rate, loose > 0 && e[7 * i + 5] < top - depth && g->nq == 1 ? e[7 * i + 6] : e[7 * i + 3]);
    }
    int last = -10;
    for (int i = 0; i <= n; i++) {
        if (!(e[7 * i + use[0]] >= least[0] || (n_use == 2 && e[7 * i + use[1]] >= least[1]))) continue;
        if (last < i - 6 && w->n_parts < MAX_INTERVALS) {
            int first = i > 0 ? i - 1 : i;
            w->part[w->n_parts][0] = lo + first * h, w->part[w->n_parts][2] = e[7 * first + 4];
            w->n_parts++;
        }
        last = i;
        w->part[w->n_parts - 1][1] = lo + (i + 1) * h;
    }
    w->left = w->n_parts ? w->part[0][0] : 0;
    w->right = w->n_parts ? w->part[w->n_parts - 1][1] : 0;
    free(e);
}

static double cost(const pair_double *g, const problem *p, dc u, double Y0, double m, double depth, window *w) {
    scan(g, &p->cut, u, Y0, m, depth, w);
    double c = fmin(w->log_sum[0], w->log_sum[1]);
    if (p->mode == SOME_LARGE) c = w->log_sum[2] + log1p(fmin(p->n * exp(c), 1e9));
    c += 0.3 * log(1 + w->rate * (w->right - w->left) / 500);
    return isfinite(c) ? c : (c < 0 ? -1e300 : 1e300);
}

#define Y_MAX 2.9
#define M_MAX 0.85

static int allowed(double Y0, double m) { return Y0 >= 0 && m >= 0 && m <= M_MAX && Y0 + 1.5 * m < Y_MAX; }

// Pattern search for the contour with the smallest sum of |terms|, or with a cost of no more than `goal`.
static void search(const pair_double *g, const problem *p, dc u, double depth, double goal, double *Y0, double *m, window *w) {
    double best = 1e301, y1 = fmin(1.0, fabs(cimag(u)) / 10 + 1e-6), bY = *Y0, bm = *m, f = 2.0, d = 0.2;
    double starts[12][2] = {{*Y0, *m}, {0, 0}, {y1, 0}, {0.8, 0.3}, {y1 / 100, 0}, {0.3, 0.6}, {1.4, 0.5}, {0.05, 0.8}, {1, 0.8}, {0.4, 0}, {0, 0.3}, {0.02, 0.2}};
    for (int i = 0; i < (loose > 0 ? 12 : 10) && best > goal; i++) {
        double c = cost(g, p, u, starts[i][0], starts[i][1], depth, w);
        if (c < best) best = c, bY = starts[i][0], bm = starts[i][1];
    }
    for (int round = 0; round < 14 && (f > 1.03 || d > 0.01) && best > goal; round++) {
        double try[6][2] = {{bY * f, bm}, {bY / f, bm}, {bY, bm + d}, {bY, bm - d}, {bY + d, bm}, {bY - d, bm}};
        int moved = 0;
        for (int i = 0; i < 6 && best > goal; i++) {
            double Y = fmax(0, try[i][0]), mm = fmax(0, try[i][1]);
            if (!allowed(Y, mm) || (Y == bY && mm == bm)) continue;
            double c = cost(g, p, u, Y, mm, depth, w);
            if (c < best - 1e-3) best = c, bY = Y, bm = mm, moved = 1;
        }
        if (!moved) f = sqrt(f), d /= 2;
    }
    *Y0 = bY;
    *m = bm;
    cost(g, p, u, bY, bm, depth, w);
}

typedef struct {
    double angle, size, rise, hz, yoff, moff, zoff;
    // angle b in degrees; mu in widths; vertex where the log of the integrand is this much above the minimum; factor of
    // the z step; changes of Y0 and m; change of the split, in units of s^2
} contour;

typedef struct {
    char value[64], log_scale[64];
    double slope, ledger, halving, c, width, ratio, zb, wide;
    int n_u, ok, mode;
    long n_z;
    char more[MAX_MORE][64];
    double more_ratio[MAX_MORE];
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

// A job: id bits(64|113) direction(1|-1) kind n eps-or-delta-word angle size rise hz yoff moff zoff kind-arguments
//   kind sgm:     sigma q            the sampled Gaussian against the Gaussian
//   kind group:   sigma q k          Binomial(k, q) mixture against the Gaussian
//   kind replace: sigma q            (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1)
// The word is eps=<float>, or delta=<float> to have the eps chosen (approximately, remove direction; -1 if there is none),
// or saddle=<float>: chosen along the saddles, either direction; the answer is id, eps and, if eps is -1, the log of the
// delta of eps = 0 (approximately). A line `set loose work least` changes the settings of that name for the jobs that follow.
// Answer: id eps value log_scale slope ledger halving c width ratio mode zb wide n_u n_z ok
// eps=<float>,<float>,... asks for several along one path, which is laid for the first: value and ratio of each of the
// others follow ok, with the same log_scale (only where ok is 1).
int main(void) {
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        char *f[64];
        int n = 0;
        for (char *t = strtok(line, " \n"); t && n < 64; t = strtok(NULL, " \n")) f[n++] = t;
        if (n == 4 && !strcmp(f[0], "set")) loose = atof(f[1]), work_limit = atof(f[2]), least = atof(f[3]);
        if (n < 15) continue;
        work = 0;
        contour k = {atof(f[6]), atof(f[7]), atof(f[8]), atof(f[9]), atof(f[10]), atof(f[11]), atof(f[12])};
        problem p = {strtod(f[4], NULL), 0, atoi(f[2]), PLAIN, {0, 0, 0}};
        answer a;
        memset(&a, 0, sizeof a);
        if (!strncmp(f[5], "delta=", 6)) {
            pair_long g;
            set_pair_long(&g, f[3], f + 13);
            printf("%s %.17g\n", f[0], epsilon_near_long(&g, p.n, strtod(f[5] + 6, NULL)));
            fflush(stdout);
            continue;
        }
        if (!strncmp(f[5], "saddle=", 7)) {
            pair_long g;
            double most;
            set_pair_long(&g, f[3], f + 13);
            double eps = epsilon_at_saddle_long(&g, p.n, p.direction, strtod(f[5] + 7, NULL), &most);
            printf("%s %.17g %.6g\n", f[0], eps, most);
            fflush(stdout);
            continue;
        }
        char *rest;
        p.eps = strtod(f[5] + 4, &rest);
        for (n_more = 0; *rest == ',' && n_more < MAX_MORE; n_more++) more[n_more] = strtod(rest + 1, &rest);
        if (atoi(f[1]) == 64) {
            pair_long g;
            set_pair_long(&g, f[3], f + 13);
            profile_long(&g, p, &k, &a);
        } else {
            pair_quad g;
            set_pair_quad(&g, f[3], f + 13);
            profile_quad(&g, p, &k, &a);
        }
        printf("%s %.17g %s %s %.17g %.3e %.3e %.10g %.4g %.2e %d %.6g %.4g %d %ld %d", f[0], p.eps, a.value, a.log_scale,
               a.slope, a.ledger, a.halving, a.c, a.width, a.ratio, a.mode, a.zb, a.wide, a.n_u, a.n_z, a.ok);
        if (a.ok == 1)
            for (int j = 0; j < n_more; j++) printf(" %s %.2e", a.more[j], a.more_ratio[j]);
        printf("\n");
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
    if (__imag__ z == 0) return NAME(make)(e, 0);
    F(sincos)(__imag__ z, &s, &c);
    return NAME(make)(e * c, e * s);
}

static COMPLEX NAME(c_expm1)(COMPLEX z) {
    REAL s, c, m = F(expm1)(__real__ z), y = __imag__ z;
    if (y == 0) return NAME(make)(m, 0);
    F(sincos)(y / 2, &s, &c);
    REAL versine = 2 * s * s;
    return NAME(make)(m * (1 - versine) - versine, (m + 1) * 2 * s * c);
}

static REAL NAME(norm2)(COMPLEX z) { return __real__ z * __real__ z + __imag__ z * __imag__ z; }
static REAL NAME(size)(COMPLEX z) { return F(hypot)(__real__ z, __imag__ z); }

static COMPLEX NAME(c_log1p)(COMPLEX z) {  // principal
    REAL a = __real__ z, b = __imag__ z, n = NAME(norm2)(z);
    REAL re = n < (REAL)0.25 ? F(log1p)(2 * a + n) / 2 : F(log)(F(hypot)(1 + a, b));
    return NAME(make)(re, F(atan2)(b, 1 + a));
}

static COMPLEX NAME(c_log)(COMPLEX z) {
    return NAME(make)(F(log)(F(hypot)(__real__ z, __imag__ z)), F(atan2)(__imag__ z, __real__ z));
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
    COMPLEX sum = 1;
    for (int k = EPS > 1e-25 ? 14 : 24; k >= 3; k--) sum = 1 + sum * w / k;
    return w * w / 2 * sum;
}

// erfc(z) / 2 for Re z >= 0: Taylor series, or the trapezoidal rule of Chiarella and Reichel with the nodes n h, or
// (n + 1/2) h if those are nearer to a pole
static COMPLEX NAME(half_erfc)(COMPLEX z) {
    COMPLEX zz = z * z;
    REAL pi = F(acos)((REAL)-1);
    if (NAME(norm2)(z) < 1) {
        COMPLEX term = z, sum = z;
        for (int n = 1; n < (EPS > 1e-25 ? 24 : 34); n++) term *= -zz / n, sum += term / (2 * n + 1);
        return (REAL)0.5 - sum / F(sqrt)(pi);
    }
    REAL h = EPS > 1e-25 ? (REAL)0.46 : (REAL)0.345, y = F(fabs)(__imag__ z) / h, near = F(fabs)(y - F(rint)(y));
    int half = near < (REAL)0.25, terms = (int)(F(sqrt)(-log(EPS)) / h) + 2;
    COMPLEX sum = half ? NAME(make)(0, 0) : 1 / (2 * zz);
    static REAL weights[2][40];  // e^(-t^2) at the nodes; terms is at most 28
    if (weights[1][0] == 0)
        for (int n = 0; n <= terms; n++)
            weights[0][n] = F(exp)(-(n * h) * (n * h)), weights[1][n] = F(exp)(-((n + (REAL)0.5) * h) * ((n + (REAL)0.5) * h));
    REAL re = __real__ zz, im2 = __imag__ zz * __imag__ zz, sum_re = 0, sum_im = 0;
    for (int n = half ? 0 : 1; n <= terms; n++) {
        REAL t = (n + (half ? (REAL)0.5 : 0)) * h, d = re + t * t, f = weights[half][n] / (d * d + im2);
        sum_re += f * d, sum_im += f;
    }
    sum += NAME(make)(sum_re, -__imag__ zz * sum_im);
    sum *= h * z / pi * NAME(c_exp)(-zz);
    if (__real__ z < pi / h) {  // the pole at -iz has been passed
        COMPLEX e = NAME(c_exp)(2 * pi * z / h);
        sum += half ? 1 / (1 + e) : 1 / (1 - e);
    }
    return sum;
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
    COMPLEX L, lm, ld, x, chi, chi1;  // log W, L - l0, log(dQ/dN(0, s^2)), W - 1, chi, 1 - chi
    int small_x, small_r, big;        // |x| and |e^(L-l0) - 1| are at most 0.3; W is too large for x
} NAME(node);

static void NAME(loss)(const NAME(pair) * g, const split *cut, COMPLEX z, REAL im, NAME(node) * o) {
    REAL i2 = 1 / (2 * g->s * g->s), top = 0, topd = 0;
    COMPLEX v[MAX_PARTS], e[MAX_PARTS], vd[MAX_PARTS], ed[MAX_PARTS], lw, num, den = 1;
    for (int i = 0; i < g->np; i++) {
        v[i] = g->a[i] * (2 * z - g->a[i]) * i2;
        if (__real__ v[i] > top) top = __real__ v[i];
    }
    for (int i = 0; i < g->nq; i++) {
        vd[i] = g->r[i] * (2 * z - g->r[i]) * i2;
        if (__real__ vd[i] > topd) topd = __real__ vd[i];
    }
    o->big = top > 3000 || topd > 3000;
    o->small_x = o->small_r = 0;
    o->ld = o->x = 0;
    COMPLEX rest = 0;
    if (o->big) {
        num = 0;
        for (int i = 0; i < g->np; i++) num += g->p[i] * NAME(c_exp)(v[i] - top);
        if (g->nq > 1) {
            den = 0;
            for (int i = 0; i < g->nq; i++) den += g->q[i] * NAME(c_exp)(vd[i] - topd);
            o->ld = NAME(c_log)(den) + topd;
        }
        lw = NAME(c_log)(num) + top - o->ld;
    } else {
        COMPLEX diff = 0, dd = 0;
        for (int i = 0; i < g->np; i++) {
            e[i] = g->a[i] == 0 ? NAME(make)(0, 0) : NAME(c_expm1)(v[i]);
            diff += g->p[i] * e[i];
            if (g->a[i] != 0) rest += g->p[i] * (1 + e[i]);
        }
        num = 1 + diff;
        if (g->nq > 1) {
            for (int i = 0; i < g->nq; i++) {
                ed[i] = g->r[i] == 0 ? NAME(make)(0, 0) : NAME(c_expm1)(vd[i]);
                dd += g->q[i] * ed[i];
            }
            den = 1 + dd;
            if (NAME(norm2)(dd) > (REAL)0.09) {  // the sum of the parts as they are: 1 + dd could cancel
                den = 0;
                for (int i = 0; i < g->nq; i++) den += g->q[i] * (1 + ed[i]);
                o->ld = NAME(c_log)(den);
            } else {
                o->ld = NAME(c_log1p)(dd);
            }
        }
        o->x = (diff - dd) / den;
        if (NAME(norm2)(o->x) < (REAL)0.09) {
            o->small_x = 1;
            lw = o->x + NAME(log1p_less)(o->x);
        } else {
            if (NAME(norm2)(diff) > (REAL)0.09) {
                num = 0;
                for (int i = 0; i < g->np; i++) num += g->p[i] * (1 + e[i]);
            }
            lw = NAME(c_log)(num) - o->ld;
        }
    }
    REAL two_pi = 2 * F(acos)((REAL)-1);
    if (!o->small_x) __imag__ lw += two_pi * F(rint)((im - __imag__ lw) / two_pi);
    o->L = lw;
    o->lm = lw - g->l0;
    if (g->nq > 1) {
        o->small_r = o->small_x;
    } else if (!o->big) {
        COMPLEX r = rest / g->p[0];
        if (NAME(norm2)(r) < (REAL)0.09) {
            o->small_r = 1;
            o->lm = r + NAME(log1p_less)(r);
        }
    }
    o->chi = 1, o->chi1 = 0;
    if (cut->on) {
        COMPLEX t = (z - cut->zb) / (REAL)cut->wide, tt = t * (1 + t * t / 30);
        if (__real__ t > (REAL)DEAD) {
            o->chi = 0, o->chi1 = 1;
            return;
        }
        t = tt;
        if (__real__ t >= 0) o->chi = NAME(half_erfc)(t), o->chi1 = 1 - o->chi;
        else o->chi1 = NAME(half_erfc)(-t), o->chi = 1 - o->chi1;
    }
}

typedef struct {
    COMPLEX log_m;  // log M_s (log M without a split), or that less u l0 in form B; relatively accurate
    COMPLEX log_b;  // log M_b
    int form;       // 0 A, 1 B
    double amp, alias, amp_b, alias_b;  // sums of |terms|, and differences between the half-rate sums, over the value
    double least;                       // the smallest that amp could be
    long n;
} NAME(moment);

static void NAME(sum)(const NAME(pair) * g, const split *cut, COMPLEX u, double Y0, double m, double h, const window *w, NAME(moment) * o) {
    REAL s2 = g->s * g->s, i2 = 1 / (2 * s2), Y = Y0, mm = m, xc = g->d.xc;
    int form = w->log_sum[0] <= w->log_sum[1] ? 0 : 1;
    REAL scale = w->top[form] > 30 ? w->top[form] : 0, scale_b = w->top[2];
    long n = (long)((w->right - w->left) / h) + 1;
    COMPLEX sums[2] = {0, 0}, sums_b[2] = {0, 0};
    REAL total = 0, total_b = 0, im = w->part[0][2], start = w->left;
    int part = 0;
    o->n = 0;
    for (long i = 0; i <= n; i++) {
        if ((double)start + i * h > w->part[part][1]) {  // skip what does not matter
            if (++part == w->n_parts) break;
            long to = (long)((w->part[part][0] - (double)start) / h) + 1;
            if (to > i) i = to;
            im = w->part[part][2];
        }
        o->n++;
        REAL x = start + i * (REAL)h, X = (x - xc) / s2, root = F(sqrt)(X * X + 4);
        REAL bend = X > 0 ? (X + root) / 2 : 2 / (root - X);
        COMPLEX z = NAME(make)(x, s2 * (Y + mm * bend)), jac = NAME(make)(1, mm * (1 + X / root) / 2), term;
        NAME(node) k;
        NAME(loss)(g, cut, z, im, &k);
        im = __imag__ k.L;
        COMPLEX lq = -z * z * i2 + k.ld, v = form ? u * k.lm : u * k.L, q = NAME(c_exp)(lq - scale);
        if ((form ? k.small_r : k.small_x) && NAME(norm2)(v) < (REAL)0.09) {
            if (form) term = q * (k.chi * NAME(c_expm1)(v) - k.chi1);
            else term = q * (k.chi * (NAME(exp_less)(v) + u * NAME(log1p_less)(k.x)) - k.chi1 * (1 + u * k.x));
        } else {
            term = k.chi == 0 ? NAME(make)(0, 0) : k.chi * NAME(c_exp)(v + lq - scale);
            if (form) term -= q;
            else if (k.big) term -= q * (1 - u) + u * NAME(c_exp)(lq - scale + k.L);
            else term -= q * (1 + u * k.x);
        }
        term *= jac;
        sums[i & 1] += term;
        total += F(sqrt)(NAME(norm2)(term));
        if (cut->on == 2 && k.chi1 != 0) {
            term = k.chi1 * NAME(c_exp)(u * k.L + lq - scale_b) * jac;
            sums_b[i & 1] += term;
            total_b += F(sqrt)(NAME(norm2)(term));
        }
    }
    REAL norm = (REAL)h / (g->s * F(sqrt)(2 * F(acos)((REAL)-1))), unit = F(exp)(-scale);
    COMPLEX sum = (sums[0] + sums[1]) * norm, gap = (sums[0] - sums[1]) * norm;
    o->log_m = scale > 0 ? NAME(c_log)(unit + sum) + scale : NAME(c_log1p)(sum);
    REAL size = NAME(size)(unit + sum);
    work += (double)o->n;
    o->form = form;
    o->amp = (double)(total * norm / size);
    o->least = (double)(NAME(size)(sum) / size);
    o->alias = (double)(NAME(size)(gap) / size);
    o->log_b = 0, o->amp_b = o->alias_b = 0;
    if (cut->on == 2) {
        sum = sums_b[0] + sums_b[1];
        size = NAME(size)(sum);
        o->log_b = NAME(c_log)(sum * norm) + scale_b;
        o->amp_b = (double)(total_b / size);
        o->alias_b = (double)(NAME(size)(sums_b[0] - sums_b[1]) / size);
    }
}

// At a real order: log M_s, its two derivatives, log M_s - u l0, and log M_b with the first two moments of L under it.
static void NAME(real_moment)(const NAME(pair) * g, const split *cut, REAL u, REAL out[7]) {
    window w;
    scan(&g->d, cut, (double)u, 0, 0, 45, &w);
    double s = (double)g->s, h = fmin(0.35 * s, 0.2 * s * s);
    if (cut->on) h = fmin(h, 0.35 * cut->wide);
    if ((w.right - w.left) / h > 100000) h = (w.right - w.left) / 100000;
    int form = w.log_sum[0] <= w.log_sum[1] ? 0 : 1;
    REAL scale = w.top[form] > 30 ? w.top[form] : 0, scale_b = w.top[2], i2 = 1 / (2 * g->s * g->s);
    long n = (long)((w.right - w.left) / h) + 1;
    work += 0.5 * (double)n;
    REAL s0 = 0, s1 = 0, s2 = 0, b0 = 0, b1 = 0, b2 = 0, pi = F(acos)((REAL)-1);
    int part = 0;
    for (long i = 0; i <= n; i++) {
        if (w.left + i * h > w.part[part][1]) {
            if (++part == w.n_parts) break;
            long to = (long)((w.part[part][0] - w.left) / h) + 1;
            if (to > i) i = to;
        }
        REAL x = w.left + i * h;
        NAME(node) k;
        NAME(loss)(g, cut, NAME(make)(x, 0), 0, &k);
        REAL L = __real__ k.L, lm = __real__ k.lm, lq = -x * x * i2 + __real__ k.ld, chi = __real__ k.chi, chi1 = __real__ k.chi1;
        REAL l = form ? lm : L, v = u * l, q = F(exp)(lq - scale), e = chi * F(exp)(v + lq - scale);
        if (form) {
            s0 += k.small_r ? q * (chi * F(expm1)(v) - chi1) : e - q;
            s1 += e * l;
        } else {
            REAL d = k.big ? F(exp)(L + lq - scale) - q : q * __real__ k.x;
            s0 += k.small_x && F(fabs)(v) < (REAL)0.3
                      ? q * (chi * (__real__ NAME(exp_less)(NAME(make)(v, 0)) + u * __real__ NAME(log1p_less)(k.x)) - chi1 * (1 + u * __real__ k.x))
                      : e - q - u * d;
            s1 += k.small_x ? q * (chi * (F(expm1)(v) * L + __real__ NAME(log1p_less)(k.x)) - chi1 * __real__ k.x) : e * L - d;
        }
        s2 += e * l * l;
        if (cut->on == 2) {
            e = chi1 * F(exp)(u * L + lq - scale_b);
            b0 += e, b1 += e * L, b2 += e * L * L;
        }
    }
    REAL norm = h / (g->s * F(sqrt)(2 * pi)), m = F(exp)(-scale) + s0 * norm, mean = s1 * norm / m;
    REAL value = scale > 0 ? F(log)(m) + scale : F(log1p)(s0 * norm);
    out[0] = form ? value + u * g->l0 : value;
    out[3] = form ? value : value - u * g->l0;
    out[1] = form ? mean + g->l0 : mean;
    out[2] = s2 * norm / m - mean * mean;
    out[4] = F(log)(b0 * norm) + scale_b;
    out[5] = b1 / b0;
    out[6] = b2 / b0;
}

// The log of the integrand at a real c, and its derivatives.
static void NAME(exponent)(const NAME(pair) * g, const problem *p, REAL c, REAL out[3]) {
    REAL k[7], base[3], d[3], n = p->n;
    NAME(real_moment)(g, &p->cut, c, k);
    if (p->mode == SOME_LARGE) {
        // log(M_s + M_b) - log M_s, through the share r of M_b
        REAL t = k[4] - k[0], r = t > 0 ? 1 / (1 + F(exp)(-t)) : F(exp)(t) / (1 + F(exp)(t)), gap = k[5] - k[1];
        REAL spread = k[6] - k[5] * k[5];
        base[0] = n * k[0], base[1] = n * k[1], base[2] = n * k[2];
        d[0] = n * (t > 40 ? t : F(log1p)(F(exp)(t)));
        d[1] = n * r * gap;
        d[2] = n * r * (spread - k[2] + (1 - r) * gap * gap);
    } else {
        base[0] = n * g->l0 * c, base[1] = n * g->l0, base[2] = 0;
        d[0] = n * k[3], d[1] = n * (k[1] - g->l0), d[2] = n * k[2];
    }
    if (p->direction > 0 && d[0] < 60) {  // base + log(expm1(d))
        REAL r = -F(expm1)(-d[0]);
        d[2] = d[2] / r - d[1] * d[1] * (1 - r) / (r * r);
        d[1] /= r;
        d[0] += F(log)(r);
    }
    out[0] = base[0] + d[0] - (p->direction > 0 ? c - 1 : -c) * p->eps - F(log)(c * (c - 1));
    out[1] = base[1] + d[1] - p->direction * (REAL)p->eps - 1 / c - 1 / (c - 1);
    out[2] = base[2] + d[2] + 1 / (c * c) + 1 / ((c - 1) * (c - 1));
}

static REAL NAME(at)(int direction, double y) { return direction > 0 ? 1 + F(exp)((REAL)y) : -F(exp)((REAL)y); }

// The minimum on the real axis; `y0` starts the search in y = log(c - 1), or log(-c), and gets the result.
static REAL NAME(saddle)(const NAME(pair) * g, const problem *p, double *y0, double tolerance, REAL out[3]) {
    double y = *y0, lo = -80, hi = 80, step = 0.5;
    for (int i = 0; i < 400 && hi - lo > tolerance && work < work_limit; i++) {
        NAME(exponent)(g, p, NAME(at)(p->direction, y), out);
        int beyond = p->direction > 0 ? !(out[1] <= 0) : !(out[1] >= 0);
        if (beyond) hi = y; else lo = y;
        if (lo > -80 && hi < 80) {
            y = (lo + hi) / 2;
        } else {
            y += beyond ? -step : step;
            step = fmin(step * 1.3, 1.5);
        }
    }
    *y0 = p->direction > 0 ? lo : (lo + hi) / 2;  // the integrand may explode just beyond
    REAL c = NAME(at)(p->direction, *y0);
    NAME(exponent)(g, p, c, out);
    return c;
}

// log of about the integral of |the integrand|. Where the integrand explodes just beyond the saddle its second derivative
// says nothing; then it is the slope on the other side that counts.
static double NAME(approximation)(const NAME(pair) * g, const problem *p, double y, const REAL out[3]) {
    REAL left[3], c = NAME(at)(p->direction, y), width = out[2] > 0 ? 1 / F(sqrt)(out[2]) : 1;
    NAME(exponent)(g, p, NAME(at)(p->direction, y - 0.1), left);
    REAL other = F(fabs)(1 / left[1]), limit = p->direction > 0 ? c - 1 : -c;
    if (other > limit) other = limit;
    if (other > width) width = other;
    return (double)(out[0] + F(log)(width / F(sqrt)(2 * F(acos)((REAL)-1))));
}

// The split with the smallest sum of integrands at the saddles: returns the log of that sum (approximation of delta).
// The first part rises with zb and the second falls; the first should stay below: it needs less accuracy then.
static double NAME(best_split)(const NAME(pair) * g, problem p, int n_wide, split *best, double start[2]) {
    double s = (double)g->s, found = INFINITY, least = INFINITY, k = g->d.a[g->np - 1], wides[3] = {0.35 * s * s, 0.4 * s, 0.2 * s};
    for (int i = n_wide == 1; i < (n_wide == 1 ? 2 : 3); i++) {
        double wide = s < 1 ? wides[i] * s : wides[i];
        if (s < 1.2 && i == 0) continue;
        double lo = fmin(2 * s, k), hi = k + 40 * s, z1 = start[0], z2 = start[1];
        double guess = best->on ? best->zb : 9 * s + k, grow = 1.3, further = 1;  // out from the guess until it is bracketed
        int below = 0, above = 0;
        for (int j = 0; j < 16 && further < 1.7 && work < work_limit; j++) {
            REAL out[3];
            p.cut = (split){1, guess * further, wide};
            p.mode = SMALL_ONLY;
            NAME(saddle)(g, &p, &z1, 0.02, out);
            double one = NAME(approximation)(g, &p, z1, out);
            p.mode = SOME_LARGE, p.cut.on = 2;
            NAME(saddle)(g, &p, &z2, 0.02, out);
            double two = NAME(approximation)(g, &p, z2, out), both = log_add(one, two);
            if (both < found) found = both;
            // among splits about as good the most one-sided: then only one part must be accurate
            double badness = both + 0.05 * fmax(fmin(one, two) - both, -40);
            if (badness < least - (best->on && wide < best->wide)) least = badness, *best = p.cut, start[0] = z1, start[1] = z2;
            if (further > 1) {
                further *= 1.15;
                continue;
            }
            if (one + 3 < two) lo = guess, below = 1; else hi = guess, above = 1;
            if (hi - lo < 0.3 * wide || fabs(one + 3 - two) < 1 || lo > guess * 1.05 || hi < guess * 0.95 || j > 9) {
                guess = best->zb, further = 1.1;  // the first part may hardly change further out
                continue;
            }
            if (below && above) guess = (lo + hi) / 2;
            else guess = fmin(fmax(guess * (below ? grow : 1 / grow), lo), hi);
            grow *= grow;
        }
    }
    return found;
}

// log of the approximation of delta, with splits if `cut` is on
static double NAME(log_delta)(const NAME(pair) * g, double n, double eps, split *cut, double start[3]) {
    problem p = {n, eps, 1, PLAIN, {0, 0, 0}};
    REAL out[3];
    NAME(saddle)(g, &p, &start[2], 0.02, out);
    double f = NAME(approximation)(g, &p, start[2], out);
    return cut ? fmin(f, NAME(best_split)(g, p, 1, cut, start)) : f;
}

// The eps at which the approximation of the remove direction is delta; -1 if it is below delta at eps = 0.
__attribute__((unused)) static double NAME(epsilon_near)(const NAME(pair) * g, double n, double delta) {
    double target = log(delta), start[3] = {0, 0, 0}, x = 0;
    split cut = {0, 0, 0};
    for (int splits = 0; splits < 2; splits++) {
        double lo = -1, hi = -1, f_lo = 0, f_hi = 0, f;
        int side = 0;
        for (int i = 0; i < 50; i++) {
            f = NAME(log_delta)(g, n, exp(x), splits ? &cut : NULL, start) - target;
            if (fabs(f) < 0.05) break;
            if (f > 0) { if (side == 1) f_hi /= 2; lo = x, f_lo = f, side = 1; }
            else { if (side == -1) f_lo /= 2; hi = x, f_hi = f, side = -1; }
            if (f_lo == 0) {
                x -= 1.5;
                if (x < -32) return -1;
            } else if (f_hi == 0) {
                x += 1.5;
            } else {
                x = (lo * f_hi - hi * f_lo) / (f_hi - f_lo);
                if (i % 4 == 3) x = (lo + hi) / 2;
                if (hi - lo < 1e-6) break;
            }
        }
        if (!splits && NAME(log_delta)(g, n, exp(x), &cut, start) - target > -0.7) break;
    }
    return exp(x);
}

// The eps whose saddle has delta as its approximation, found along the saddles: one moment each, where epsilon_near
// takes a search each. Without a split delta itself may be far below. -1 if delta is above that of eps = 0, whose log
// goes to `most`.
__attribute__((unused)) static double NAME(epsilon_at_saddle)(const NAME(pair) * g, double n, int direction, double delta, double *most) {
    double lo = -80, hi = 80, y = 0, step = 0.5, eps = -1, target = log(delta);
    problem p = {n, 0, direction, PLAIN, {0, 0, 0}};
    *most = -INFINITY;
    for (int i = 0; i < 200 && hi - lo > 1e-9 && work < work_limit; i++) {
        REAL out[3], c = NAME(at)(direction, y);
        NAME(exponent)(g, &p, c, out);
        double e = (double)(direction * out[1]);
        double f = (double)(out[0] - (direction > 0 ? c - 1 : -c) * e - F(log)(out[2]) / 2) - 0.9189385332046727;
        int small = e >= 0 || !isfinite(e);
        if (small && isfinite(e)) *most = fmax(*most, f);  // monotone in y
        if (small && isfinite(f) && fabs(f - target) < 0.02) return e;
        if (small && isfinite(f) && f < target) eps = e;
        if (small && !(f > target)) hi = y; else lo = y;
        if (lo > -80 && hi < 80) {
            y = (lo + hi) / 2;
        } else {
            y += hi < 80 ? -step : step;
            step = fmin(step * 1.3, 1.5);
        }
    }
    return target > *most ? -1 : eps;
}

typedef struct {
    REAL value, slope, absolute;  // of the integral over e^top, of its derivative in eps, of the absolute values
    double ledger, halving;
    int n_u, ok;
    long n_z;
    REAL more[MAX_MORE], more_absolute[MAX_MORE];  // value and absolute for the other eps
} NAME(integral);

// Integrate along one hyperbola; with `levels` = 1 only at the first step (for choosing mu). What is much smaller than
// `floor` need not be accurate.
static void NAME(integrate)(const NAME(pair) * g, const problem *p, REAL c, REAL mu, REAL top, REAL floor, const contour *k, int levels, double ratio, NAME(integral) * a) {
    REAL pi = F(acos)((REAL)-1), b = k->angle * pi / 180, cb = F(cos)(b), sb = F(sin)(b), n = p->n, eps = p->eps, sign = p->direction;
    double s = (double)g->s, h0 = fmin(0.3 * s, 0.125 * s * s) * k->hz;
    if (p->cut.on) h0 = fmin(h0, 0.35 * p->cut.wide * k->hz);
    COMPLEX sum = 0, sum_slope = 0;
    COMPLEX more_sum[MAX_MORE] = {0};
    REAL more_abs[MAX_MORE] = {0}, more_biggest[MAX_MORE] = {0}, more_last[MAX_MORE] = {0};
    REAL abs_sum = 0, biggest = 0, step = (REAL)0.125, last = 0, limit = INFINITY;
    double ledger = 0, theta_max = 50;
    int level;
    static struct { double Y0, m, h; } warm[480 * (1 << (MAX_LEVELS - 1)) + 2];
    a->halving = 1, a->n_u = 0, a->n_z = 0, a->ok = 1;
    for (level = 0; level < levels && a->ok; level++) {
        int quiet = 0, stride = 1 << (MAX_LEVELS - 1 - level);
        REAL previous = 1;
        for (long i = level == 0 ? 0 : 1; a->ok; i += level == 0 ? 1 : 2) {
            REAL th = i * step, hs = F(sinh)(th / 2);
            if ((double)th > theta_max) break;
            COMPLEX du = NAME(make)(2 * mu * cb * hs * hs, mu * sb * F(sinh)(th)), u = c + du;
            COMPLEX direction = NAME(make)(mu * cb * F(sinh)(th), mu * sb * F(cosh)(th)), value = 0;
            dc ud = (double)__real__ u + I * (double)__imag__ u;
            NAME(moment) o;
            window w;
            double Y0 = 0, m = 0, h = h0, err_round = 0, err_alias = 0, now_cost = 0, target = 1, rough = 0;
            int improvable = 1;
            if (i > 0) Y0 = warm[(i - 1) * stride].Y0, m = warm[(i - 1) * stride].m, h = fmin(h0, 1.4 * warm[(i - 1) * stride].h);
            REAL size = 0;
            now_cost = cost(&g->d, p, ud, Y0, m, DEPTH, &w);
            for (int attempt = 0, searched = 0; attempt < 8; attempt++) {
                // the even and the odd nodes can tell the error only if no phase turns by more than pi between them
                if (h * w.rate > 1.5) h = 1.5 / w.rate;
                if (w.n_parts == 0 || (w.right - w.left) / h > 200000) {
                    size = INFINITY;
                    if (searched) break;
                    err_round = INFINITY;
                    goto improve;
                }
                NAME(sum)(g, &p->cut, u, Y0, m, h, &w, &o);
                a->n_z += o.n;
                COMPLEX base = u * (n * g->l0 - sign * eps) - top + (sign > 0 ? eps : 0), e = n * o.log_m, d = 0;
                COMPLEX whole = o.form ? base + e : e - (sign > 0 ? u - 1 : -u) * eps - top;  // log of M^n or M_s^n, times the rest
                if (p->mode == SOME_LARGE) {
                    COMPLEX r = o.log_b - o.log_m - (o.form ? u * g->l0 : 0);
                    d = n * (__real__ r > 40 ? r : NAME(c_log1p)(NAME(c_exp)(r)));
                    value = __real__ d > 1 ? NAME(c_exp)(whole + d) - NAME(c_exp)(whole) : NAME(c_exp)(whole) * NAME(c_expm1)(d);
                } else if (sign < 0) {
                    value = NAME(c_exp)(whole);
                } else if (o.form && __real__ e < 1) {
                    value = NAME(c_exp)(base) * NAME(c_expm1)(e);
                } else {
                    value = NAME(c_exp)(whole) - NAME(c_exp)(base);
                }
                COMPLEX outside = direction / (u * (u - 1));
                value *= outside;
                size = NAME(size)(value);
                // errors of log M and of log M_b; exponents of up to about 20 lose a digit
                double power = (double)NAME(size)(NAME(c_exp)(whole) * outside), share = 0;
                if (p->mode == SOME_LARGE) share = power * (double)(n * NAME(size)(1 - NAME(c_exp)(-d / n)) * NAME(size)(NAME(c_exp)(d))), power = (double)size;
                double phase = (double)(NAME(size)(u) * (o.form ? F(fabs)(n * g->l0) + eps : eps)), nd = p->n;
                err_round = EPS * (power * 10 * nd * o.amp + share * 10 * (o.amp + o.amp_b) + (double)size * (phase + 4));
                err_alias = power * nd * o.alias * o.alias / fmin(o.amp, 1) + share * o.alias_b * o.alias_b;
                target = (double)(abs_sum + size + floor) * fmax(EPS * 200, loose);
                rough = power * nd * o.alias + share * o.alias_b > target ? fmax(o.alias, o.alias_b) : 0;
                improvable = !(o.amp < 4 * o.least) || !(o.amp_b < 4);
            improve:
                if (searched < (loose > 0 ? 3 : 1) && ((!(err_round < target) && improvable) || !(err_alias < 1e6 * target) || (rough > 1e-3 && attempt > 1))) {
                    double excess = fmax(err_round, err_alias * 1e-3) / target;
                    double goal = now_cost - (excess > 1 && excess < 1e100 ? log(excess) : 400) - 1;
                    if (loose > 0 && p->mode != SOME_LARGE) goal = fmin(goal, -1);  // it would accept too much
                    search(&g->d, p, ud, DEPTH, goal, &Y0, &m, &w);
                    double Y1 = Y0 * (1 + k->yoff), m1 = m > 0 ? fmax(0, m + k->moff) : 0;
                    if (allowed(Y1, m1)) Y0 = Y1, m = m1, cost(&g->d, p, ud, Y0, m, DEPTH, &w);
                    if (loose > 0) now_cost = cost(&g->d, p, ud, Y0, m, DEPTH, &w);
                    searched++;
                } else if (!(err_alias < target) || !(rough < 1e-3)) {
                    h /= 1.5;
                } else {
                    break;
                }
            }
            warm[i * stride].Y0 = Y0, warm[i * stride].m = m, warm[i * stride].h = h;
            a->n_u++;
            if (a->n_z > MAX_NODES || work > work_limit) a->ok = 0;
            if (getenv("DEBUG"))
                fprintf(stderr, "mode %d level %d th %.4g u %.6g %.6g Y0 %.3g m %.3g form %d amp %.3g %.3g alias %.3g %.3g n %ld h %.3g size %.3g win %.4g %.4g er %.2g ea %.2g\n", p->mode, level, (double)th, creal(ud), cimag(ud), Y0, m, o.form, o.amp, o.amp_b, o.alias, o.alias_b, o.n, h, (double)size, w.left, w.right, err_round, err_alias);
            if (!(size < INFINITY)) {  // far out, where nothing is left to sum
                if (previous > (biggest > floor ? biggest : floor) * (REAL)1e-15) {
                    a->ok = 0;
                    break;
                }
                value = 0, size = previous, err_round = (double)previous, err_alias = 0;
            }
            REAL next = previous > 0 ? size * (size / previous) : size;  // if it goes on falling like that
            previous = size;
            if (i == 0) limit = 1000 * size / mu;
            if (size > limit * NAME(size)(direction)) {  // the integrand explodes along this hyperbola
                a->ok = 0;
                break;
            }
            REAL half = i == 0 ? (REAL)0.5 : 1;
            sum += half * value;
            sum_slope += half * value * (sign > 0 ? -(u - 1) : u);
            abs_sum += half * size;
            ledger += err_round + err_alias;
            if (size > biggest) biggest = size;
            quiet = size < (biggest > floor ? biggest : floor) * fmax(EPS / 20, loose * 0.01) ? quiet + 1 : 0;
            for (int j = 0; j < n_more; j++) {
                COMPLEX v = value * NAME(c_exp)((sign > 0 ? 1 - u : u) * (more[j] - eps));
                REAL v_size = NAME(size)(v);
                more_sum[j] += half * v;
                more_abs[j] += half * v_size;
                if (v_size > more_biggest[j]) more_biggest[j] = v_size;
                if (!(v_size < more_biggest[j] * 1e-17)) next = biggest;
                if (!(v_size < more_biggest[j] * 1e-15)) quiet = 0;
            }
            if (level == 0 && (quiet >= 3 || (quiet > 0 && next < biggest * fmax(EPS * 1e-6, loose * 1e-6)))) {
                theta_max = (double)th;
                break;
            }
        }
        a->value = __imag__ sum * step / pi;
        a->slope = __imag__ sum_slope * step / pi;
        a->absolute = abs_sum * step / pi;
        a->ledger = (double)(ledger * step / pi);
        int open = 0;  // another eps that still moves
        for (int j = 0; j < n_more; j++) {
            a->more[j] = __imag__ more_sum[j] * step / pi, a->more_absolute[j] = more_abs[j] * step / pi;
            REAL gap = F(fabs)(more_last[j] - a->more[j]) / F(fabs)(a->more[j]);
            if (!(gap < (REAL)1e-7) && !(floor > 0) && a->more_absolute[j] < 1e5 * F(fabs)(a->more[j])) open = 1;
            more_last[j] = a->more[j];
        }
        if (level > 0 && a->absolute > ratio * F(fabs)(a->value)) a->ok = 0;
        if (level > 0) {
            a->halving = (double)F(fabs)(last - a->value);
            REAL size = F(fabs)(a->value);
            double enough = fmax(EPS, loose);
            if (a->halving < enough * (double)floor || a->absolute < enough * floor) break;
            if (open) {
                last = a->value;
                step /= 2;
                continue;
            }
            if (a->halving * a->halving < fmax(1e-4 * EPS, 0.1 * loose) * (double)(size * (size > floor ? size : floor))) break;
        }
        last = a->value;
        step /= 2;
    }
    if (level == levels && levels > 1) a->ok = 0;
}

// Saddle, size of the hyperbola, integral; given up if it cancels by more than `ratio`.
static REAL NAME(solve)(const NAME(pair) * g, const problem *p, const contour *k, REAL floor, REAL floor_top, double ratio, answer *a, NAME(integral) * best) {
    double y = 0;
    REAL out[3], c = NAME(saddle)(g, p, &y, 1e-3, out), top = out[0];
    best->ok = 0;
    if (floor > 0 && floor_top - top > DEPTH + 10 + (n_more > 0 ? 30 : 0)) {
        memset(best, 0, sizeof *best);
        best->ok = 1;
        return top;
    }
    double slack = floor > 0 ? (double)(floor_top - top) - 6 : 0;
    floor = floor > 0 ? floor * F(exp)(floor_top - top) : 0;
    // the vertex: left of the saddle (right of it for add), where the log of the integrand is `rise` above the minimum
    double lo = y - 1e-3, rise = fmin(fmax(k->rise, slack), 15), step = 0.02;
    for (int i = 0; i < 60; i++, step *= 1.5) {
        NAME(exponent)(g, p, NAME(at)(p->direction, lo - step), out);
        if (!(out[0] - top < rise)) break;
        lo -= step;
    }
    double far = lo - step;
    for (int i = 0; i < 12; i++) {
        double middle = (lo + far) / 2;
        NAME(exponent)(g, p, NAME(at)(p->direction, middle), out);
        if (out[0] - top < rise) lo = middle; else far = middle;
    }
    a->c = (double)c;
    // Of hyperbolas of several sizes the one with the least cancellation; if the integrand explodes along it (between
    // the first points), the next, or another vertex further from the explosion.
    for (int vertices = 0; vertices < 3; vertices++) {
        REAL vertex = NAME(at)(p->direction, lo), width = F(fabs)(vertex - c) / sqrt(2 * rise), mu = k->size * width;
        if (p->direction < 0) vertex = c - (vertex - c);  // away from the pole
        NAME(integral) t[12];
        REAL sizes[12];
        int n = 0, worse = 0;
        for (int i = 0; i < 10 && worse < 2; i++, mu *= 5) {
            NAME(integrate)(g, p, vertex, mu, top, floor, k, 1, 1e300, &t[n]);
            a->n_z += t[n].n_z;
            if (!t[n].ok) continue;
            sizes[n++] = mu;
            if (t[n - 1].absolute < 50 * F(fabs)(t[n - 1].value) || t[n - 1].absolute < floor * (REAL)1e-6) break;
            worse = n > 1 && t[n - 1].absolute > t[n - 2].absolute * (REAL)0.98 ? worse + 1 : 0;
        }
        a->width = (double)width;
        while (n > 0) {
            int best_of = 0;
            for (int i = 1; i < n; i++)
                if (t[i].absolute < t[best_of].absolute) best_of = i;
            NAME(integrate)(g, p, vertex, sizes[best_of], top, floor, k, MAX_LEVELS, ratio, best);
            a->n_z += best->n_z;
            a->n_u += best->n_u;
            if (best->ok || ratio < 1e29) return top;
            t[best_of] = t[n - 1], sizes[best_of] = sizes[n - 1];
            n--;
        }
        rise = fmax(3 * (vertices + 1), 2 * rise), far = lo, step = 0.02;
        for (int i = 0; i < 60; i++, step *= 1.5) {
            NAME(exponent)(g, p, NAME(at)(p->direction, far - step), out);
            if (!(out[0] - top < rise)) break;
            far -= step;
        }
        lo = far;
    }
    best->ok = 0;
    return top;
}

static void NAME(profile)(const NAME(pair) * g, problem p, const contour *k, answer *a) {
    NAME(integral) one, two;
    REAL top = 0, top2;
    split cut = {0, 0, 0};
    top = NAME(solve)(g, &p, k, 0, 0, p.direction > 0 ? (loose > 0 ? 3e3 : 100) : 1e30, a, &one);
    int plain = p.direction < 0 || one.ok;
    if (!plain) {  // split, if that makes the integrand at the saddle smaller
        REAL out[3];
        double y = 0, start[2] = {0, 0};
        NAME(saddle)(g, &p, &y, 0.02, out);
        double whole = NAME(approximation)(g, &p, y, out), parts = NAME(best_split)(g, p, 2, &cut, start);
        plain = !(parts < whole - 2);
        if (!plain && parts < least) {
            a->ok = 2;
            strcpy(a->value, "1");
            snprintf(a->log_scale, sizeof a->log_scale, "%.6g", parts);
            return;
        }
        if (plain) top = NAME(solve)(g, &p, k, 0, 0, 1e30, a, &one);
    }
    if (plain) {
        a->mode = PLAIN;
    } else {
        p.cut = cut;
        p.cut.zb += k->zoff * cut.wide;
        p.cut.wide *= 1 - k->zoff / 4;
        // the larger part first; the other need not be more accurate than that one is
        problem p1 = p, p2 = p;
        p1.mode = SMALL_ONLY, p1.cut.on = 1;
        p2.mode = SOME_LARGE, p2.cut.on = 2;
        REAL out1[3], out2[3];
        double y1 = 0, y2 = 0;
        NAME(saddle)(g, &p1, &y1, 0.02, out1);
        NAME(saddle)(g, &p2, &y2, 0.02, out2);
        if (out1[0] > out2[0]) {
            top = NAME(solve)(g, &p1, k, 0, 0, 1e30, a, &one);
            top2 = NAME(solve)(g, &p2, k, F(fabs)(one.value), top, 1e30, a, &two);
        } else {
            top2 = NAME(solve)(g, &p2, k, 0, 0, 1e30, a, &two);
            top = NAME(solve)(g, &p1, k, F(fabs)(two.value), top2, 1e30, a, &one);
        }
        a->mode = SOME_LARGE, a->zb = p.cut.zb, a->wide = p.cut.wide;
        REAL r1 = top2 > top ? F(exp)(top - top2) : 1, r2 = top2 > top ? 1 : F(exp)(top2 - top);
        if (top2 > top) top = top2;
        one.value = one.value * r1 + two.value * r2;
        one.slope = one.slope * r1 + two.slope * r2;
        one.absolute = one.absolute * r1 + two.absolute * r2;
        one.ledger = one.ledger * (double)r1 + two.ledger * (double)r2;
        one.halving = one.halving * (double)r1 + two.halving * (double)r2;
        for (int j = 0; j < n_more; j++) {
            one.more[j] = one.more[j] * r1 + two.more[j] * r2;
            one.more_absolute[j] = one.more_absolute[j] * r1 + two.more_absolute[j] * r2;
        }
        one.ok = one.ok && two.ok;
    }
    a->slope = (double)(one.slope / one.value);
    a->ledger = one.ledger / (double)F(fabs)(one.value);
    a->halving = one.halving / (double)F(fabs)(one.value);
    a->ratio = (double)(one.absolute / F(fabs)(one.value));
    a->ok = one.ok && one.value > 0;
    for (int j = 0; j < n_more; j++) {
        a->more_ratio[j] = (double)(one.more_absolute[j] / F(fabs)(one.more[j]));
        quadmath_snprintf(a->more[j], sizeof a->more[j], "%.36Qg", (__float128)one.more[j]);
    }
    quadmath_snprintf(a->value, sizeof a->value, "%.36Qg", (__float128)one.value);
    quadmath_snprintf(a->log_scale, sizeof a->log_scale, "%.36Qg", (__float128)top);
}

#endif
