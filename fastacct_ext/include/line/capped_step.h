/* line/capped_step.h -- the step of a capped line's nodes, for Im u up to t.
 *
 * As in line/capped_place.h any choice is valid; the ledger bounds the quadrature's error.
 */
#ifndef FA_LINE_CAPPED_STEP_H
#define FA_LINE_CAPPED_STEP_H

#include "capped_tail.h"

#define FA_MIX_SPARE 4.0 /* what the moduli of mixtures are larger by than their growth */

/* log of about E_Q[|exp(u (l - m))| keep] on Im xi = -eta at Im u = t, without the Gaussian's growth: Im l is about eta
 * min(a, l + l^2), and Re l is up to (1 - cos eta) min(a, l) less than l, which counts for negative exponents */
FA_FUNC double fa_cap_growth(const fa_cap_nodes *s, double c, double m, double t, double eta, double stretch)
{
    const double *l = s->sum.lr, *w = s->sum.wr;
    double sum = 0.0, t_eta = t * eta, less = fa_max(0.0, -c) * (1.0 - cos(eta)), top = 0.0,
           clip = c < 0.0 ? INFINITY : 600.0; /* a negative exponent has large ones far from the weight */
    int j, n = s->sum.n, seen = c < 0.0 ? n : 0;
    FA_PRAGMA(omp simd reduction(max : top))
    for (j = 0; j < seen; j++)
        top = fa_max(top, c * (l[j] - m) + t_eta * fa_min(stretch, l[j] * (1.0 + l[j])) +
                              less * fa_min(stretch, l[j]) - 300.0);
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (j = 0; j < n; j++)
        sum += w[j] * fa_exp_plain_v(fa_min(clip, c * (l[j] - m) + t_eta * fa_min(stretch, l[j] * (1.0 + l[j])) +
                                                      less * fa_min(stretch, l[j])) - top);
    return top + log(fa_max(sum, 1e-300));
}

/* an edge between windows: its width in the loss, the exponent that its quadrature needs on the real line, and how far
 * Im l goes there for a unit of Im xi, unless the stretch is less */
typedef struct {
    double width, need, turn;
} fa_cap_rim;

/* need: the exponent for an integrand as large as E_Q[exp(v l)] = exp(log_m); most: of the edge's own share */
FA_FUNC fa_cap_rim fa_cap_rim_at(const fa_cap_block *block, double z, double width, double v, double log_m, double need,
                                 double most)
{
    fa_cap_rim out;
    double l = fa_cap_l(block, z), a = block->inv_var * fa_cap_posterior(block, z),
           turn = width * (v * a - z * block->inv_var);
    double weight = -0.5 * z * z * block->inv_var + v * l - log_m + log(width / block->sigma) + 0.5 * turn * turn;
    out.width = 0.9 * width * a;
    out.need = need + fa_min(weight, most);
    out.turn = l * (1.0 + l);
    return out;
}

/* what the step is chosen for */
typedef struct {
    double need, least, mean, log_m; /* exponents of the sum, of K at Chernoff's points; tilted mean, log E_Q[e^(cl)] */
    double right_tilt, right_log_m;  /* of Chernoff's right point where its exponent is negative */
    double ampl, share;              /* |F(c)| over delta; steps over what the sum of large losses is worth */
    int quick;                         /* whether the first stretch that needs more nodes ends the search */
    fa_cap_rim cap, right, low, lower; /* edges at the cap and the floor, for the line and for Chernoff's points */
} fa_cap_needs;

FA_FUNC fa_cap_needs fa_cap_needs_of(const fa_cap_job *job, const fa_cap_block *block, const fa_cap_plan *plan,
                                     const fa_cap_effort *effort, double t)
{
    const fa_cap_windows *w = &block->w;
    double c = plan->c, log_t = log(job->steps), u2 = c * c + t * t, tilt = plan->tilt,
           right = fa_cap_tilt(job, plan->right),
           ampl = plan->excess +
                  log(fa_min(0.5 * FA_PI * c * (c - 1.0) / (2.0 * c - 1.0),
                             1.0 / sqrt(2.0 * FA_PI * (plan->d2 + 1.0 / (c * c) + 1.0 / ((c - 1.0) * (c - 1.0))))));
    fa_cap_needs out;
    out.quick = 0;
    out.ampl = ampl = fa_max(0.0, ampl);
    out.share = log(job->steps / expm1(fa_min(600.0, fa_max(plan->jumps, 1e-9))));
    out.least = 5.0 + log_t;
    out.need = fa_max(out.least, effort->need + ampl +
                                     log(fa_max(1.0, fa_min(job->steps, 20.0 + 4.0 * plan->d2 * u2))) +
                                     (block->sigma > 3.0 ? 3.0 : 0.0));
    out.mean = fa_max(0.0, block->d1 / block->steps - block->kappa);
    out.log_m = block->k / block->steps - tilt * block->kappa;
    out.right_tilt = right;
    out.right_log_m = job->is_add
                          ? fa_cap_block_k(block, &block->coarse, right, 0, 0.0).k / block->steps - right * block->kappa
                          : 0.0;
    memset(&out.cap, 0, sizeof(out.cap));
    out.cap.width = INFINITY;
    out.cap.need = -INFINITY;
    out.right = out.low = out.lower = out.cap;
    if (!job->is_add || job->walled) { /* else the nodes end long before it begins */
        out.cap = fa_cap_rim_at(block, w->cap, w->width, tilt, out.log_m, effort->need + ampl + log_t, 1.0);
        out.right = fa_cap_rim_at(block, w->cap, w->width, right,
                                  job->walled ? out.right_log_m
                                              : log1p(fa_cap_block_k(block, &block->coarse, right, 0, 0.0).rest),
                                  11.0 + log_t, INFINITY);
    }
    if (block->split) {
        out.low = fa_cap_rim_at(block, w->floor, w->floor_width, tilt, out.log_m, effort->need + ampl + out.share,
                                log(block->jumps / block->steps));
        out.lower = fa_cap_rim_at(block, w->floor, w->floor_width, plan->low,
                                  log1p(fa_cap_block_k(block, &block->coarse, plan->low, 1, 0.0).rest), 11.0 + log_t,
                                  INFINITY);
    }
    return out;
}

/* the exponent that an edge needs on Im xi = -eta at Im u = t, and at Chernoff's point */
FA_INLINE double fa_cap_rim_need(const fa_cap_rim *edge, const fa_cap_rim *chernoff, double stretch, double eta,
                                 double t)
{
    double turn = eta * fa_min(stretch, edge->turn), share = turn / edge->width;
    return fa_max(edge->need + t * turn, chernoff->need) + 0.5 * share * share;
}

typedef struct {
    double nodes, h, stretch; /* about how many nodes */
    int by_edge;              /* whether an edge, or growth off the real line, asks for most of them */
} fa_cap_stepping;

/* the stretch with the least number of nodes whose error is bounded on Im xi = -eta */
FA_FUNC fa_cap_stepping fa_cap_stepping_at(const fa_cap_block *block, double c, const fa_cap_needs *n, double t,
                                           double z_low, double z_high, double eta)
{
    fa_cap_stepping best = {INFINITY, 0.0, 1.0, 0};
    double l_end = fa_cap_l(block, z_high), a, first = block->walled ? fa_min(1.0, 2.0 * l_end) : 1.0;
    int worse = 0;
    for (a = first; a > (block->walled ? 1e-3 * first : 1e-6); a *= n->quick ? 0.5 : 0.7) {
        double growth = fa_cap_growth(&block->coarse, c, n->mean, t, eta, a) + c * n->mean - n->log_m,
               right = c < 0.0 ? fa_cap_growth(&block->coarse, n->right_tilt, 0.0, 0.0, eta, a) - n->right_log_m + 6.0
                               : 0.0,
               e = fa_max(n->need + fa_max(0.0, growth), n->least + fa_max(0.0, right)) +
                   0.5 * block->sigma * block->sigma * eta * eta,
               edge = fa_max(fa_cap_rim_need(&n->cap, &n->right, a, eta, t),
                             fa_cap_rim_need(&n->low, &n->lower, a, eta, t)),
               knee = fa_min(fa_cap_z(block, a + block->kappa), z_high), nodes;
        nodes = (fa_max(2.0, (knee - z_low) * block->inv_var) + l_end / a) * fa_max(e, edge) / (2.0 * FA_PI * eta);
        if (nodes < best.nodes) {
            best.nodes = nodes;
            best.h = 2.0 * FA_PI * eta / fa_max(e, edge);
            best.stretch = a;
            best.by_edge = edge > 2.0 * e || (c < 0.0 && fa_max(growth, right) > 0.5 * n->need);
            worse = 0;
        }
        else if (n->quick || (++worse > 2 && nodes > 1.5 * best.nodes))
            break;
    }
    return best;
}

typedef enum { FA_MIX_ALL, FA_MIX_LARGE, FA_MIX_SMALL } fa_mix_part;

/* log of about the modulus of fa_mix_fill_moduli, E_Q[|exp(u l)| windows] on Im xi = -eta, Re u = v, Im u = t, of all
 * losses or of those on one side of the floor; on the coarse nodes.  bent: what a cell costs over the curvature of l */
FA_FUNC double fa_mix_modulus(const fa_cap_block *block, double v, double t, double eta, fa_mix_part part, double bent)
{
    const fa_cap_nodes *s = &block->coarse;
    const fa_cap_windows *w = &block->w;
    const double *l = s->sum.lr, *log_q = s->log_q, *moved = s->moved, *z = s->z, *spread = s->spread;
    double co = cos(0.5 * eta), pen = -log(co), bend = eta * eta / (co * co), turn = t * eta / co, top = -INFINITY,
           sum = 0.0, s2 = block->sigma * block->sigma, y2 = eta * eta * s2 * s2, inv_cap = 0.5 / (w->width * w->width),
           inv_floor = part == FA_MIX_ALL ? 0.0 : 0.5 / (w->floor_width * w->floor_width),
           side = part == FA_MIX_SMALL ? -1.0 : 1.0, *size = block->coarse.scratch;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(max : top))
    for (j = 0; j < n; j++) {
        double u0 = z[j] - w->cap, u1 = side * (w->floor - z[j]), e0 = inv_cap * (y2 - u0 * u0),
               e1 = inv_floor * (y2 - u1 * u1);
        size[j] = log_q[j] + v * l[j] + fabs(v) * fa_min(pen, bend * moved[j]) + turn * moved[j] + bent * spread[j] +
                  (u0 < 0.0 ? fa_max(0.0, e0) : e0) + (u1 < 0.0 ? fa_max(0.0, e1) : e1);
        top = fa_max(top, size[j]);
    }
    if (!block->walled) { /* fa_mix_close_right has the first form beyond the last node, as 1e4 cells */
        size[n - 1] += fabs(v) * (pen - fa_min(pen, bend * moved[n - 1])) + 9.2;
        top = fa_max(top, size[n - 1]);
    }
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (j = 0; j < n; j++)
        sum += fa_exp_plain_v(fa_max(-690.0, size[j] - top));
    return top + log(sum) + 0.5 * s2 * eta * eta;
}

/* -log of what quadrature of mixtures may be off by: of the line's sum of all losses and of the large ones, of K at
 * Chernoff's right point, and at the floor's, each for an integrand of size 1; and Im u, and the largest exponent */
typedef struct {
    double all, large, right, small, t, most;
} fa_mix_needs;

/* 2 pi eta/h that these ask for on Im xi = -eta, cells of two steps h costing what the ledger counts */
FA_FUNC double fa_mix_worst(const fa_cap_block *block, const fa_cap_plan *plan, const fa_mix_needs *needs,
                            double right, double eta, double h)
{
    double co = cos(0.5 * eta), t = needs->t,
           bent = exp(4.0 * h) * 0.5 * h * h * (needs->most * (1.0 + eta * eta / (co * co)) + t * eta / co),
           worst = fa_max(needs->all + fa_mix_modulus(block, plan->tilt, t, eta, FA_MIX_ALL, bent),
                          needs->right + fa_mix_modulus(block, right, 0.0, eta, FA_MIX_ALL, bent));
    if (!block->split)
        return worst;
    worst = fa_max(worst, needs->large + fa_mix_modulus(block, plan->tilt, t, eta, FA_MIX_LARGE, bent));
    return fa_max(worst, needs->small + fa_mix_modulus(block, plan->low, 0.0, eta, FA_MIX_SMALL, bent));
}

/* nodes of mixtures */
FA_FUNC int fa_mix_lay_line(const fa_cap_job *job, fa_cap_block *block, const fa_cap_line *line,
                            const fa_cap_effort *effort, double t)
{
    const fa_cap_plan *plan = &line->plan;
    fa_cap_needs needs = fa_cap_needs_of(job, block, plan, effort, t);
    double right = fa_cap_tilt(job, plan->right), z_low = fa_cap_begin(block, effort->left, right),
           z_high = fa_cap_line_end(job, block, plan->right, plan->low, effort->right),
           s2 = block->sigma * block->sigma, best = 0.0, log_t = log(job->steps), h,
           eta = fa_min(1.5, sqrt(2.0 * needs.need) / block->sigma), tail = log_t + 8.0,
           strip = fa_min(1.0, sqrt(2.0 * tail) / block->sigma);
    fa_mix_needs all = {.all = needs.need + FA_MIX_SPARE - needs.log_m,
                        .right = tail + 8.0 - fa_mix_modulus(block, right, 0.0, 0.0, FA_MIX_ALL, 0.0),
                        .large = effort->need + FA_MIX_SPARE + needs.ampl + needs.share - needs.log_m,
                        .t = t,
                        .most = fa_max(fa_max(fabs(plan->tilt), fabs(right)), block->split ? plan->low : 0.0)};
    int worse = 0, i;
    if (block->split)
        all.small = tail + 8.0 - fa_max(0.0, fa_mix_modulus(block, plan->low, 0.0, 0.0, FA_MIX_SMALL, 0.0));
    for (; worse < 3 && eta > 1e-4; eta *= 0.7) {
        double worst = fa_mix_worst(block, plan, &all, right, eta, 0.0), bend = eta / cos(0.5 * eta), high, low;
        if (worst > 500.0) /* beyond what the ledger's doubles hold */
            continue;
        high = fa_min(2.0 * FA_PI * eta / worst, 3.5 / sqrt(1.0 + fabs(right) * (1.0 + bend * bend)));
        low = fa_min(high, 2.0 * FA_PI * eta / fa_mix_worst(block, plan, &all, right, eta, high));
        for (i = 0; i < 3 && low < 0.9 * high; i++) { /* the smaller h is, the less do cells cost */
            h = sqrt(low * high);
            *(2.0 * FA_PI * eta < h * fa_mix_worst(block, plan, &all, right, eta, h) ? &high : &low) = h;
        }
        worse = low > best ? 0 : worse + 1;
        if (low > best) {
            best = low;
            block->strip = eta;
        }
    }
    h = fa_min(fa_min(best, 2.0 * FA_PI * strip / (tail + 0.5 * s2 * strip * strip)), 0.9);
    return h > 0.0 && fa_mix_fill(block, &block->nodes, h, z_low, z_high);
}

/* Step and stretch of the nodes for Im u up to t: the least number of nodes for which the quadrature's error is below
 * exp(-need), relative. A guess, checked by the ledger; returns the step */
FA_FUNC double fa_cap_step_for(fa_cap_block *block, double tilt, const fa_cap_needs *needs, double t, double z_low,
                               double z_high, double log_steps, double *stretch_out)
{
    double eta = fa_min(1.5, sqrt(2.0 * needs->need) / block->sigma), tail = log_steps + 3.0, h;
    fa_cap_stepping mesh = fa_cap_stepping_at(block, tilt, needs, t, z_low, z_high, eta), next;
    block->strip = eta;
    while (mesh.by_edge && eta > 1e-3) { /* narrow windows grow fast off the real line */
        eta *= 0.6;
        next = fa_cap_stepping_at(block, tilt, needs, t, z_low, z_high, eta);
        if (!(next.nodes < mesh.nodes))
            break;
        mesh = next;
        block->strip = eta;
    }
    *stretch_out = mesh.stretch;
    /* the tail's majorant is a sum too, raised to the number of steps: its error in a strip of 0.8, or the best, where
     * it grows about as exp(sigma^2 strip^2) */
    h = block->sigma > sqrt(tail) / 0.8 ? FA_PI / (sqrt(tail) * block->sigma)
                                        : 2.0 * FA_PI * 0.8 / (tail + 0.64 * block->sigma * block->sigma);
    return fa_min(fa_min(mesh.h, h), 0.9);
}

/* nodes of a sampled Gaussian, and what bounds are made of */
FA_FUNC int fa_cap_lay_line(const fa_cap_job *job, fa_cap_block *block, const fa_cap_line *line,
                            const fa_cap_effort *effort, double t)
{
    const fa_cap_plan *plan = &line->plan;
    fa_cap_needs needs = fa_cap_needs_of(job, block, plan, effort, t);
    double z_low = fa_cap_begin(block, effort->left, fa_cap_tilt(job, plan->right)),
           z_high = fa_cap_line_end(job, block, plan->right, plan->low, effort->right), stretch,
           h = fa_cap_step_for(block, plan->tilt, &needs, t, z_low, z_high, log(job->steps), &stretch);
    if (!(h > 0.0) || !fa_cap_fill(block, &block->nodes, h, stretch, z_low, z_high))
        return 0;
    fa_cap_bends(block, &block->nodes);
    return 1;
}

#endif
