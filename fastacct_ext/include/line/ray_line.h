/* line/ray_line.h -- jobs in which nothing decays: a line up to Im u = T by Gauss's rule, and rays beyond.
 *
 * Every error is of the form e^(log - (c-1) eps), so that a line serves every eps near the one it was drawn for.
 * docs/algorithms/rays.md.
 */
#ifndef FA_LINE_RAY_LINE_H
#define FA_LINE_RAY_LINE_H

#include "ray_sums.h"

#ifndef FA_RAY_LOST         /* tests starve it */
#define FA_RAY_LOST 2e-14   /* what the ends in place of M may leave out at T, in all steps together */
#endif
#define FA_RAY_POINTS  4096 /* of the line, at most */
#define FA_RAY_RULE    32   /* points of a panel of the line */
#define FA_RAY_RINGS   12   /* distances from c at which |F| is bounded */
#define FA_RAY_LONG    1e6  /* T, at most */
#define FA_RAY_QUIET   1.0  /* log of the moduli over M(c)^n that are small enough ... */
#define FA_RAY_FURTHER 8.0  /* ... to go on from the least T as far as this */
#define FA_RAY_SPARE   3.0  /* log by which the moduli may be larger at another eps */

typedef struct {
    fa_rays rays;
    int n;
    double eps, c, most;                      /* F is kept at eps; largest exponent of the nodes */
    double ref;                               /* about log delta there, over which everything is kept */
    double *t, *weight, *log_f, *arg_f, *off; /* off: relative error of |F| */
    double rule, cut; /* log of what the line's rule, and the ends in place of M, leave out, at eps */
    double moduli, plain,
        there; /* log of the integrals of moduli on the strip's rim, and on the rays; at places there */
    double
        away; /* how far off the line the rule's bound looks: there F turns by e^(away |eps' - eps|) at another eps' */
    double fine;  /* rounding of the tables, in u */
    double drift; /* what rounding of losses moves eps by */
    double *memory;
} fa_ray_line;

FA_FUNC void fa_ray_line_free(fa_ray_line *line)
{
    fa_rays_free(&line->rays);
    free(line->memory);
    memset(line, 0, sizeof(*line));
}

/* log of the integral of moduli over both rays where |u| and |u - 1| are at least rho, over M(c)^n */
FA_FUNC double fa_ray_moduli(const fa_rays *rays, double rho)
{
    double sum = 0.5 + log(2.0 / rho);
    int b, e;
    for (b = 0; b < rays->n; b++) {
        const fa_ray_block *block = rays->blocks + b;
        double one = 0.0;
        for (e = 0; e < 2; e++)
            one += fa_end_most(block->ends.end + e, block->terms, rho) *
                   exp(rays->c * block->ends.end[e].place - block->log_m / block->steps);
        sum += block->steps * log(one);
    }
    return sum;
}

/* how far u stays from 0 and 1 on the strip's rim, at least */
FA_INLINE double fa_ray_clear(const fa_rays *rays) { return fa_max(1e-3, 0.9316 * rays->t - 0.1908 * rays->c); }

/* the least T at which the ends stand for M, and how many terms each block takes.  0: none */
FA_FUNC int fa_ray_begin(const fa_cap_job *job, fa_ray_line *line)
{
    fa_rays *rays = &line->rays;
    double t, c = rays->c, first = INFINITY;
    fa_share_of share[FA_RAY_KINDS];
    int b, m;
    for (b = 0; b < rays->n; b++)
        share[b] = fa_pieces_share(job->blocks[b].pieces, c, FA_NO_EDGES);
    for (t = fa_max(0.5, 0.4 * (c - 1.0)); t < FA_RAY_LONG; t *= 1.08) {
        double lost = 0.0, grown = 0.0;
        for (b = 0; b < rays->n; b++) {
            fa_ray_block *block = rays->blocks + b;
            const fa_ends *ends = &block->ends;
            double best = ends->terms ? INFINITY : 0.0, log_m = block->log_m / block->steps,
                   size = (c - (ends->is_flipped ? 1.0 : 0.0)) * ends->end[1].place - log_m;
            block->terms = 0;
            for (m = 4; m <= ends->terms; m++) {
                double here = ends->rest[m - 1] * exp(size - m * log(t));
                if (here < best) {
                    best = here;
                    block->terms = m;
                }
            }
            lost += block->steps * best;
            grown += block->steps * fa_max(-20.0, fa_share_beyond(share[b], t) - log_m);
        }
        if (lost < FA_RAY_LOST && grown < 3.0) {
            first = fa_min(first, t);
            rays->t = t;
            line->cut = lost > 0.0 ? log(lost * 1.01) - log(FA_PI * t) : -INFINITY;
            if (t > FA_RAY_FURTHER * first || fa_ray_moduli(rays, fa_ray_clear(rays)) < FA_RAY_QUIET)
                return 1;
        }
    }
    return first < INFINITY;
}

typedef struct {
    int n;
    double away[FA_RAY_RINGS],
        log_m[FA_RAY_RINGS]; /* log of the larger one of M e^(-(v-1) eps) at c + away, c - away */
} fa_ray_rings;

/* K at c -+ some distances, enlarged by what its nodes may be off by.  0: none */
FA_FUNC int fa_ray_look(fa_cap_job *job, fa_ray_line *line, double width, fa_ray_rings *out)
{
    double c = line->c;
    int i;
    out->n = 0;
    for (i = 0; i < FA_RAY_RINGS; i++) {
        double away = 0.3 * fa_min(width, c - 1.0) * pow(1.6, i), k = 0.0;
        fa_cap_real right, left;
        if (c + away > line->most)
            break;
        right = fa_flat_k(job, c + away), left = fa_flat_k(job, c - away);
        k = fa_max(right.k - away * line->eps, left.k + away * line->eps);
        out->away[i] = away;
        out->log_m[i] = k - (c - 1.0) * line->eps + 1.01 * fa_max(right.rest, left.rest) + 1e-9;
        out->n++;
    }
    return out->n > 2;
}

/* log of what a rule leaves out of 1/pi times the integral of |F| over a panel of half length `half` about `mid`.  In
 * elliptic coordinates the pole u = 1 is on a confocal ellipse, from which the panel's is at least the difference of
 * the half axes away */
FA_FUNC double fa_ray_rule_error(const fa_ray_line *line, const fa_ray_rings *rings, double mid, double half,
                                 double *away_out)
{
    double best = INFINITY, x = mid / half, y = (line->c - 1.0) / half, far, axis;
    int i;
    far = 0.5 * (sqrt((x + 1.0) * (x + 1.0) + y * y) + sqrt((x - 1.0) * (x - 1.0) + y * y)); /* the pole's half axis */
    for (i = 0; i < rings->n; i++) {
        double m = rings->away[i] / half, r = m + sqrt(1.0 + m * m), apart;
        axis = 0.5 * (r + 1.0 / r);
        apart = (far - axis) * half;
        if (r > 40.0 || !(apart > 0.0))
            break;
        axis = log(64.0 / 15.0 * half / FA_PI) + rings->log_m[i] - 2.0 * log(apart) - 2.0 * FA_RAY_RULE * log(r) -
               log1p(-1.0 / (r * r));
        if (axis < best) {
            best = axis;
            *away_out = rings->away[i];
        }
    }
    return best;
}

/* points up to T.  0: too many */
FA_FUNC int fa_ray_points(fa_ray_line *line, const fa_ray_rings *rings, double width)
{
    double at = 0.0, half = fa_min(0.5 * line->rays.t, 40.0 * width), sum = 0.0, end = line->rays.t, away = 0.0;
    int i, place = fa_gauss_place(FA_RAY_RULE);
    line->n = 0;
    line->away = 0.0;
    while (at < end * (1.0 - 1e-12)) {
        double error;
        half = fa_min(2.0 * half, 0.5 * (end - at));
        while ((error = fa_ray_rule_error(line, rings, at + half, half, &away)) > line->ref - FA_FLAT_GOOD - 1.0) {
            half *= 0.8;
            if (half < 1e-6 * end)
                return 0;
        }
        sum += exp(error - line->ref);
        line->away = fa_max(line->away, away);
        if (line->n + FA_RAY_RULE > FA_RAY_POINTS)
            return 0;
        for (i = 0; i < FA_RAY_RULE; i++) {
            int j = place + (i < FA_RAY_RULE / 2 ? FA_RAY_RULE / 2 - 1 - i : i - FA_RAY_RULE / 2);
            line->t[line->n] = at + half * (1.0 + (i < FA_RAY_RULE / 2 ? -fa_gauss_node[j] : fa_gauss_node[j]));
            line->weight[line->n++] = fa_gauss_weight[j] * half / FA_PI;
        }
        at += 2.0 * half;
    }
    line->rule = log(sum) + line->ref;
    return 1;
}

/* log F at the points, and what it may be off by: the sums of one block are added */
FA_FUNC void fa_ray_add(fa_ray_line *line, const fa_cap_block *block)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_asked ask = {line->c, line->rays.t, 0.0, 0.0};
    double c = line->c, steps = block->steps, kappa = block->kappa, scale = exp(-c * kappa), *tilted = s->scratch,
           off = fa_mesh_error(block->pieces, &s->mesh, &ask, &ask) * scale, sum = 0.0,
           u = sqrt(c * c + line->rays.t * line->rays.t);
    int j, k, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (j = 0; j < n; j++) {
        tilted[j] = fa_exp_plain_v(fa_max(-700.0, fa_min(700.0, s->sum.log_w[j] + c * s->sum.lr[j])));
        sum += tilted[j] * (20.0 + s->fine[j] + u * (s->slip[j] + 4.0 * fabs(s->sum.lr[j])));
    }
    off += FA_EPS * sum;
    for (k = 0; k < line->n; k++) {
        const double *l = s->sum.lr;
        double re = 0.0, im = 0.0, t = line->t[k], size;
        FA_PRAGMA(omp simd reduction(+ : re, im))
        for (j = 0; j < n; j++) {
            double co, si = fa_sincos_v(t * l[j], &co);
            re += tilted[j] * co;
            im += tilted[j] * si;
        }
        size = re * re + im * im;
        line->log_f[k] += steps * (0.5 * log(size) + c * kappa);
        line->arg_f[k] += steps * (atan2(im, re) + t * kappa);
        line->off[k] += steps * off / sqrt(size) +
                        FA_EPS * steps * (8.0 + fabs(log(size)) + 2.0 * (c + t) * fabs(kappa));
    }
}

/* the blocks' ends, log M(c)^n on nodes for real exponents.  0: not that kind of job */
FA_FUNC int fa_ray_open(fa_cap_job *job, fa_ray_line *line)
{
    fa_rays *rays = &line->rays;
    fa_cap_real of = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    int b;
    rays->n = job->n;
    rays->c = line->c;
    rays->log_m = rays->range = line->drift = 0.0;
    for (b = 0; b < job->n; b++) {
        fa_ray_block *block = rays->blocks + b;
        const fa_cap_block *own = job->blocks + b;
        if (!fa_pieces_ends(own->pieces, &block->ends))
            return 0;
        block->steps = own->steps;
        block->gap = block->ends.end[1].place - block->ends.end[0].place;
        if (line->c * block->gap > 690.0)
            return 0;
        memset(&of, 0, sizeof(of));
        fa_flat_add_k(own, line->c, &of);
        block->log_m = of.k;
        rays->log_m += block->log_m;
        rays->range += block->steps * block->gap;
        line->drift += FA_EPS * block->steps * fa_pieces_slip(own->pieces);
    }
    return 1;
}

/* what the tables round, in u: an end's A by 10 and its series by 300, as often as there are steps; a step of a table
 * by 8, and exponents */
FA_FUNC double fa_ray_fine(const fa_rays *rays)
{
    double sum = 100.0 + 4.0 * fabs(rays->log_m) + 8.0 * rays->range * (rays->c + rays->t);
    int b, e;
    for (b = 0; b < rays->n; b++) {
        const fa_ray_block *block = rays->blocks + b;
        double worst = 0.0, place = fabs(block->ends.end[0].place) + fabs(block->ends.end[1].place);
        for (e = 0; e < 2; e++) {
            double most = fa_end_most(block->ends.end + e, block->terms, rays->t);
            worst = fa_max(worst, (most - block->ends.end[e].atom) / most);
        }
        sum += block->steps * (10.0 + 300.0 * worst + 4.0 * place * rays->c) + 8.0 * (block->high - block->low);
    }
    return sum;
}

/* A line for eps, where delta is about exp(ref).  0: none */
FA_FUNC int fa_ray_draw(fa_cap_job *job, fa_ray_line *line, const fa_flat_place *at, double eps, double ref)
{
    fa_ray_rings rings;
    double **rows[] = {&line->t, &line->weight, &line->log_f, &line->arg_f, &line->off};
    int b, k, i;
    fa_ray_line_free(line);
    line->eps = eps;
    line->ref = ref;
    if (job->n > FA_RAY_KINDS)
        return 0;
    line->c = fa_flat_tilt(job, eps, at->v);
    line->most = at->most;
    line->memory = fa_alloc(sizeof(double) * 5 * FA_RAY_POINTS);
    if (!line->memory || !fa_ray_open(job, line) || !fa_ray_begin(job, line) || !fa_rays_open(&line->rays) ||
        !fa_ray_look(job, line, at->width, &rings))
        return 0;
    for (i = 0; i < 5; i++)
        *rows[i] = line->memory + i * FA_RAY_POINTS;
    if (!fa_ray_points(line, &rings, at->width))
        return 0;
    for (k = 0; k < line->n; k++)
        line->log_f[k] = line->arg_f[k] = line->off[k] = 0.0;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        block->k = line->rays.blocks[b].log_m;
        if (!fa_pieces_lay_line(block, line->c, line->c, 1.0, 0.0, line->rays.t, FA_FLAT_GOOD + 2.0))
            return 0;
        fa_ray_add(line, block);
    }
    for (k = 0; k < line->n; k++) {
        double t = line->t[k], c = line->c;
        line->log_f[k] -= (c - 1.0) * eps + 0.5 * (log(c * c + t * t) + log((c - 1.0) * (c - 1.0) + t * t));
        line->arg_f[k] -= t * eps + atan2(t, c) + atan2(t, c - 1.0);
    }
    line->rays.log_m -= (line->c - 1.0) * eps;
    line->cut += line->rays.log_m + 1e-9;
    line->moduli = fa_ray_moduli(&line->rays, fa_ray_clear(&line->rays)) + line->rays.log_m;
    line->rays.step = fa_min(0.45, 2.0 * FA_PI * FA_RAY_STRIP /
                                       fa_max(8.0, line->moduli - ref + 0.7 + FA_RAY_SPARE + FA_FLAT_GOOD));
    line->fine = fa_ray_fine(&line->rays);
    line->plain = fa_ray_moduli(&line->rays, line->rays.t) + line->rays.log_m;
    line->there = fa_ray_moduli(&line->rays, 0.5 * line->rays.t) + line->rays.log_m - 112.0;
    return line->moduli - line->ref < 60.0;
}

/* delta at eps, and its errors.  NaN: no reading */
FA_FUNC fa_flat_reading fa_ray_read(fa_ray_line *line, double eps)
{
    double by = eps - line->eps, c1 = line->c - 1.0, sum = 0.0, fall = 0.0, off = 0.0, size = 0.0, far[4] = {0.0},
           scale, value, moduli = line->moduli - c1 * by - line->ref, alias, both, co, si, t = line->rays.t;
    fa_flat_reading out = {NAN, NAN, INFINITY, INFINITY};
    int k;
    if (!(line->rays.step > 0.04) || !(fabs(c1 * by) < 300.0))
        return out;
    FA_PRAGMA(omp simd reduction(+ : sum, fall, off, size))
    for (k = 0; k < line->n; k++) {
        double here = line->t[k], turn_co, turn_si = fa_sincos_v(line->arg_f[k] - here * by, &turn_co),
               e = line->weight[k] * fa_exp_plain_v(fa_min(600.0, line->log_f[k] - line->ref - c1 * by));
        sum += e * turn_co;
        fall += e * (c1 * turn_co - here * turn_si);
        off += e * line->off[k];
        size += e * (40.0 + fabs(line->arg_f[k]) + here * (eps + fabs(by)) + c1 * eps + fabs(line->ref));
    }
    fa_rays_sort(&line->rays, eps);
    fa_ray_both(&line->rays, eps, far);
    fa_ray_there(&line->rays, far);
    scale = exp(line->rays.log_m - line->ref - c1 * by) / FA_PI;
    si = sin(-t * eps), co = cos(-t * eps);
    value = sum + scale * (far[0] * si + far[1] * co);
    fall += scale * (far[2] * si + far[3] * co);
    if (!(value > 0.0))
        return out;
    alias = 2.0 / expm1(2.0 * FA_PI * FA_RAY_STRIP / line->rays.step) + 3e-16;
    both = exp(moduli) * alias + exp(line->plain - c1 * by - line->ref) * FA_EPS * (line->fine + 8.0 * t * eps) +
           exp(line->cut - c1 * by - line->ref) + fa_cap_exp(line->rule - c1 * by + line->away * fabs(by) - line->ref) +
           exp(line->there - c1 * by - line->ref) + 1.05 * off + FA_EPS * size;
    both += fa_flat_shifted(2.0 * line->drift + line->rays.snap, line->rays.log_m - c1 * by - line->ref);
    out.log_value = line->ref + log(value);
    out.slope = -fall / value;
    out.up = out.down = both / value + 8.0 * FA_EPS * (4.0 + fabs(line->ref));
    return out;
}

#endif
