/* line/lattice_line.h -- jobs of atoms whose losses differ by multiples of one number: one period of a line.
 *
 *   u_k = c + 2 pi i k/(N a), k < N, x the first place of the sum above eps, y = x - eps:
 *   delta = 1/N sum of Re[M(u) e^(eps - u x) (expm1(y) + e^(y - u a) expm1(a - y))/((1 - e^((1-u) a)) (1 - e^(-u a)))]
 *
 * plus what aliases, which is not negative: Chernoff's bound at v is of what is N a away.  docs/algorithms/rays.md,
 * "Lattices".
 */
#ifndef FA_LINE_LATTICE_LINE_H
#define FA_LINE_LATTICE_LINE_H

#include "flat_place.h"

#ifndef FA_LATTICE_SMALL        /* tests starve it */
#define FA_LATTICE_SMALL 42.0   /* -log of an atom's size at c, over the largest, from which on it is left out */
#endif
#define FA_LATTICE_POINTS 65536 /* of a period, at most */
#define FA_LATTICE_PAIRS  4e7   /* points times atoms */
#define FA_LATTICE_PROBES 9     /* Chernoff's points on either side */

typedef struct {
    int n, half;                 /* points of the period, and those that are computed, k <= N/2 */
    double c, eps, ref;          /* F is kept over exp(ref) */
    double spacing, first;       /* a, and the least place of the sum */
    double right, left, k[2];    /* Chernoff's points, and K there, enlarged */
    double drift;                /* what places may be off by */
    int whole;                   /* whether the period holds all places */
    double *log_m, *arg_m, *off; /* of the job; log of the factor by which |M| may be too small */
    double *memory;
} fa_lattice_line;

FA_FUNC void fa_lattice_line_free(fa_lattice_line *line)
{
    free(line->memory);
    memset(line, 0, sizeof(*line));
}

/* the least place of the sum, its range, and by how much places miss the lattice; 0: some do */
FA_FUNC int fa_lattice_fits(const fa_cap_job *job, fa_lattice_line *line, double *range_out)
{
    int b, i;
    line->first = line->drift = *range_out = 0.0;
    for (b = 0; b < job->n; b++) {
        const fa_cap_block *block = job->blocks + b;
        const fa_pieces *law = block->pieces;
        double worst = 0.0, side = law->is_flipped ? -1.0 : 1.0;
        if (law->n_panels > 0 || law->table.n_panels > 0)
            return 0;
        for (i = 0; i < law->n_atoms; i++) {
            double away = (side * law->atoms[i].loss - block->kappa) / line->spacing;
            worst = fa_max(worst, fabs(away - nearbyint(away)) * line->spacing);
        }
        if (!(worst < 1e-7 * line->spacing))
            return 0;
        line->first += block->steps * block->kappa;
        *range_out += block->steps * (fa_pieces_end(law, 1) - block->kappa);
        line->drift += block->steps * (worst + FA_EPS * fa_pieces_slip(law));
    }
    return 1;
}

/* the real points about the saddle, and K there, enlarged by what its nodes may be off by; how many */
FA_FUNC int fa_lattice_probe(const fa_cap_job *job, const fa_flat_place *at, double *v, double *k)
{
    int i, n = 0;
    for (i = -FA_LATTICE_PROBES; i <= FA_LATTICE_PROBES; i++) {
        double step = at->width * (pow(1.45, abs(i)) - 1.0),
               x = i < 0 ? 1.0 + (at->v - 1.0) / (1.0 + step / (at->v - 1.0)) : at->v + step;
        fa_cap_real r;
        if (!(x < at->most))
            break;
        r = fa_flat_k(job, x);
        v[n] = x;
        k[n++] = r.k + 1.01 * r.rest + 1e-9;
    }
    return n;
}

/* c and the period: the shortest one by Chernoff's bounds.  What is to the right of the sum's places is nothing, so
 * that nothing aliases from there once all of them are in a period */
FA_FUNC int fa_lattice_plan(fa_cap_job *job, fa_lattice_line *line, const fa_flat_place *at, double range)
{
    double v[2 * FA_LATTICE_PROBES + 1], k[2 * FA_LATTICE_PROBES + 1],
        best = INFINITY, least = INFINITY, tol = line->ref - FA_FLAT_GOOD + 2.0, eps = line->eps,
        all = range + 2.0 * line->spacing;
    int i, j, n = fa_lattice_probe(job, at, v, k);
    for (i = 0; i < n; i++)
        least = fa_min(least, k[i] - (v[i] - 1.0) * eps - log(v[i] * (v[i] - 1.0)));
    for (i = 0; i < n; i++) {
        double c = v[i], left = -tol / (c - 1.0), right = all, from = 1.0, to = c, k_from = 0.0, k_to = 0.0, x,
               excess = k[i] - (c - 1.0) * eps - log(c * (c - 1.0)) - least;
        for (j = 0; j < n; j++) {
            x = (k[j] + fa_log_b(v[j]) - (v[j] - 1.0) * eps - tol) / fabs(v[j] - c);
            if (j < i && x < left)
                left = x, from = v[j], k_from = k[j];
            if (j > i && x < right)
                right = x, to = v[j], k_to = k[j];
        }
        x = fa_max(left, right) + 1.5 * at->spread;
        if (excess < 4.0 && x * (1.0 + 0.03 * excess) < best) {
            best = x * (1.0 + 0.03 * excess);
            line->n = (int)fa_min(2.0 * FA_LATTICE_POINTS, ceil(x / line->spacing) + 1.0);
            line->c = c;
            line->left = from, line->right = to, line->k[0] = k_from, line->k[1] = k_to;
            line->whole = !(right < all);
        }
    }
    return best < INFINITY && line->n > 1 && line->n <= FA_LATTICE_POINTS;
}

/* the angle of k steps of a place, in (-pi, pi]; integers below 2^53 */
FA_INLINE double fa_lattice_turn(double place, double k, double n)
{
    double all = place * k, turns = all / n, whole = (turns + FA_ROUND_SHIFT) - FA_ROUND_SHIFT;
    return 2.0 * FA_PI / n * (all - n * whole);
}

/* the phasors of n atoms at the k-th point, and how they turn from one to the next */
FA_FUNC void fa_lattice_start(fa_cap_nodes *s, int n, double k, double points)
{
    const double *weight = s->scratch, *place = s->scratch2;
    double *vr = s->sum.vr, *vi = s->sum.vi, *er = s->sum.er, *ei = s->sum.ei;
    int j;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double co, si = fa_sincos_v(fa_lattice_turn(place[j], k, points), &co);
        vr[j] = weight[j] * co;
        vi[j] = weight[j] * si;
        si = fa_sincos_v(fa_lattice_turn(place[j], 1.0, points), &co);
        er[j] = co;
        ei[j] = si;
    }
}

/* log M of one block at the points, by phasors of the atoms that are not negligible at c; its errors in units of |M| */
FA_FUNC int fa_lattice_add(fa_lattice_line *line, fa_cap_block *block)
{
    fa_cap_nodes *s = &block->coarse;
    double c = line->c, top = s->sum.lr[s->sum.n - 1], most = -INFINITY, dropped = 0.0, rounded = 0.0,
           steps = block->steps, re[FA_RUN], im[FA_RUN], base = c * (top + block->kappa);
    int j, k, i, n = 0;
    for (j = 0; j < s->sum.n; j++)
        most = fa_max(most, s->sum.log_w[j] + c * (s->sum.lr[j] - top));
    for (j = 0; j < s->sum.n; j++) {
        double place = nearbyint(s->sum.lr[j] / line->spacing), away = place * line->spacing - top,
               size = s->sum.log_w[j] + c * away, weight = exp(size - most);
        if (size < most - FA_LATTICE_SMALL) {
            dropped += weight;
            continue;
        }
        s->scratch[n] = weight;
        s->scratch2[n] = place;
        rounded += weight * (24.0 + 9.0 * FA_RUN + s->fine[j] + 6.0 * c * fabs(away));
        n++;
    }
    for (; n % FA_LANES; n++)
        s->scratch[n] = s->scratch2[n] = 0.0;
    if ((double)n * line->half > FA_LATTICE_PAIRS)
        return 0;
    fa_count((double)n * line->half);
    for (k = 0; k <= line->half; k += FA_RUN) {
        const fa_turning all = {s->sum.vr, s->sum.vi, NULL, NULL, s->sum.er, s->sum.ei, NULL, NULL};
        fa_lattice_start(s, n, k, line->n);
        fa_turn_run(&all, 0, n, 0, re, im);
        for (i = 0; i < FA_RUN && k + i <= line->half; i++) {
            double size = re[i] * re[i] + im[i] * im[i], lg = 0.5 * log(fa_max(size, 1e-300));
            line->log_m[k + i] += steps * (lg + base + most);
            line->arg_m[k + i] += steps * atan2(im[i], re[i]);
            line->off[k + i] += steps * (log1p((dropped + FA_EPS * rounded) * exp(fa_min(600.0, -lg))) +
                                         FA_EPS * (8.0 + 2.0 * fabs(lg + base + most)));
        }
    }
    return 1;
}

/* a period for eps, where delta is about exp(ref).  0: none */
FA_FUNC int fa_lattice_draw(fa_cap_job *job, fa_lattice_line *line, const fa_flat_place *at, double spacing, double eps,
                            double ref)
{
    double range;
    size_t room;
    int b, k;
    fa_lattice_line_free(line);
    line->spacing = spacing;
    line->eps = eps;
    line->ref = ref;
    if (!fa_lattice_fits(job, line, &range) || !fa_lattice_plan(job, line, at, range))
        return 0;
    line->half = line->n / 2;
    room = (size_t)line->half + FA_RUN;
    line->memory = fa_alloc(sizeof(double) * 3 * room);
    if (!line->memory)
        return 0;
    line->log_m = line->memory, line->arg_m = line->log_m + room, line->off = line->arg_m + room;
    for (k = 0; k < (int)room; k++)
        line->log_m[k] = line->arg_m[k] = line->off[k] = 0.0;
    for (b = 0; b < job->n; b++)
        if (!fa_goes_on() || !fa_lattice_add(line, job->blocks + b))
            return 0;
    return 1;
}

/* Chernoff's bound of what aliases with the weight of v, over delta = exp(log_value) */
FA_INLINE double fa_lattice_alias(const fa_lattice_line *line, double v, double k, double eps, double log_value)
{
    double x = fabs(v - line->c) * line->n * line->spacing;
    return 1.001 * fa_cap_exp(k + fa_log_b(v) - (v - 1.0) * eps - log_value - x) / -expm1(-x);
}

/* sums over the period: of delta, of what falls with eps, of errors, and of rounding, over exp(ref) */
FA_INLINE void fa_lattice_sum(const fa_lattice_line *line, double eps, double place, double y, double *sums)
{
    double a = line->spacing, c = line->c, n = line->n, q = exp(-c * a), p = q * exp(a), ey = expm1(y),
           ea = expm1(a - y), base = eps - c * (eps + y) - line->ref - log(n), one_p = -expm1((1.0 - c) * a),
           one_q = -expm1(-c * a), sum = 0.0, fall = 0.0, off = 0.0, size = 0.0;
    const double *log_m = line->log_m, *arg_m = line->arg_m, *lost = line->off;
    int k, half = line->half, twin = 2 * half == line->n ? half : -1;
    FA_PRAGMA(omp simd reduction(+ : sum, fall, off, size))
    for (k = 0; k <= half; k++) {
        double half_co, half_si = fa_sincos_v(FA_PI / n * k, &half_co), less = 2.0 * half_si * half_si,
                        si = 2.0 * half_si * half_co, pr = one_p + p * less, pi = p * si, qr = one_q + q * less,
                        qi = q * si, nr = ey + (1.0 + ey) * ea * q * (1.0 - less), ni = -(1.0 + ey) * ea * q * si,
                        over_q = 1.0 / (qr * qr + qi * qi), over_p = 1.0 / (pr * pr + pi * pi), br = qr * over_q,
                        bi = -qi * over_q, xr = nr * br - ni * bi, xi = nr * bi + ni * br,
                        fr = (xr * pr + xi * pi) * over_p, fi = (xi * pr - xr * pi) * over_p,
                        turn = arg_m[k] - fa_lattice_turn(place, k, n), turn_co, turn_si = fa_sincos_v(turn, &turn_co),
                        e = fa_exp_plain_v(fa_min(600.0, log_m[k] + base)), mod, grow, size_f;
        size_f = (k == 0 || k == twin ? 1.0 : 2.0) * sqrt(fr * fr + fi * fi);
        e *= k == 0 || k == twin ? 1.0 : 2.0;
        mod = e * sqrt(fr * fr + fi * fi);
        (void)fa_exp_both_v(fa_min(1.0, lost[k]), &grow);
        grow = lost[k] < 1.0 ? mod * grow : size_f * fa_exp_plain_v(fa_min(600.0, log_m[k] + base + lost[k]));
        sum += e * (fr * turn_co - fi * turn_si);
        fall += e * (br * turn_co - bi * turn_si);
        off += grow;
        size += mod * (60.0 + 2.0 * fabs(arg_m[k]) + fabs(log_m[k]) + fabs(base));
    }
    sums[0] = sum, sums[1] = fall, sums[2] = off, sums[3] = size;
}

/* delta at eps, and its errors.  NaN: no reading */
FA_FUNC fa_flat_reading fa_lattice_read(fa_lattice_line *line, double eps)
{
    double a = line->spacing, place = floor((eps - line->first) / a) + 1.0, y = line->first + place * a - eps, sums[4],
           both, shift = 2.0 * line->drift + 4.0 * FA_EPS * (fabs(eps) + fabs(line->first) + fabs(place * a));
    fa_flat_reading out = {NAN, NAN, INFINITY, INFINITY};
    fa_lattice_sum(line, eps, place, y, sums);
    if (!(sums[0] > 0.0))
        return out;
    out.log_value = line->ref + log(sums[0]);
    out.slope = -sums[1] / sums[0];
    both = (1.01 * sums[2] + 2.0 * FA_EPS * sums[3] +
            fa_flat_shifted(shift, line->log_m[0] - (line->c - 1.0) * eps - line->ref)) /
               sums[0] +
           8.0 * FA_EPS * (4.0 + fabs(line->ref));
    out.up = out.down = both;
    out.down += fa_lattice_alias(line, line->left, line->k[0], eps, out.log_value);
    if (!line->whole)
        out.down += fa_lattice_alias(line, line->right, line->k[1], eps, out.log_value);
    return out;
}

#endif
