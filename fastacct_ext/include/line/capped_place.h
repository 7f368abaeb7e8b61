/* line/capped_place.h -- where a capped line goes: the saddle, the floor, and (c, h) from Chernoff's points.
 *
 * Nothing here needs to be exact: any choice is valid, at a cost.  What bounds an error is evaluated again on the
 * line's own nodes (line/capped_ledger.h).
 */
#ifndef FA_LINE_CAPPED_PLACE_H
#define FA_LINE_CAPPED_PLACE_H

#include "pieces_cap.h"

#define FA_CAP_STEEP  60.0 /* first exponent that is tried, times the loss where a cap of data is, at most */
#define FA_CAP_PROBES 25   /* Chernoff's points around the saddle */
#define FA_CAP_UNSEEN 10.0 /* -log of a share of delta that caps of added mixtures may see, less FA_CAP_NOTHING */
#define FA_CAP_LEFT   20.0 /* standard deviations left of 0 to which losses that fall count off the real line */
#define FA_CAP_SEEN   1e-6 /* how often the tilt may see what is worth nothing */

typedef struct {
    double v, k, curvature; /* the saddle of exp(K(v) - (v-1) eps)/(v (v-1)), second derivative of its exponent */
    double log_size, slope; /* about log delta, and its derivative in eps */
} fa_cap_saddle;

struct fa_cap_plan {
    double c, h;             /* the line u = c + i k h */
    double tilt;             /* c's exponent on the nodes */
    double left, right, low; /* Chernoff's points: aliases from either side, and the floor's (1: no floor) */
    double excess;           /* log |F(c)| - log delta, about */
    int is_bare;             /* no points: Chernoff's bound at c is negligible beside the closed part */
    double d2, jumps;        /* of K at c: curvature, and how many large losses the tilt expects */
};

/* the cap of one block; 0: none in doubles */
FA_FUNC int fa_cap_place_own_cap(const fa_cap_job *job, fa_cap_block *block, const fa_cap_effort *effort, double eps,
                                 double back)
{
    double z = job->is_add ? fa_cap_nothing(job, block, 0.0, job->deepest)
                           : fa_min(fa_cap_z(block, eps + back), fa_cap_nothing(job, block, eps, job->deepest));
    block->is_low = 0;
    return job->walled ? fa_cap_begin_wall(job, block, eps) : fa_cap_begin_at(block, effort, z);
}

/* the caps for eps, in every block at the loss that reaches eps whatever all others take back, or where no delta
 * notices what is beyond */
FA_FUNC int fa_cap_place_cap(fa_cap_job *job, const fa_cap_effort *effort, double eps)
{
    double variance = job->variance + job->mu2, most = 8.0 * sqrt(variance) + 0.5 * variance,
           back = job->taken_back > 0.0
                      ? fa_max(effort->cap_back * most, effort->caps == FA_CAPS_USUAL ? job->taken_back : 0.0)
                      : effort->cap_back * fa_min(most, -job->least + 8.0 * sqrt(job->mu2) + 0.5 * job->mu2);
    int b, falls = 0;
    for (b = 0; b < job->n && !job->is_add; b++)
        falls |= fa_pieces_falls(job->blocks + b);
    job->fall_a = 0.0;
    if (falls && !fa_cap_is_alone(job))
        back = fa_pieces_fall(job, eps) + (job->data < job->n || job->mu2 > 0.0 ? back : 0.0);
    job->has_floor = 0;
    for (b = 0; b < job->n; b++)
        if (!job->blocks[b].family->place_cap(job, job->blocks + b, effort, eps, back))
            return 0;
    fa_cap_count_lost(job);
    return 1;
}

/* the saddle for eps by Newton's method in log(v - 1), from v = start */
FA_FUNC fa_cap_saddle fa_cap_find_saddle(const fa_cap_job *job, double eps, double start, int small_only)
{
    fa_cap_saddle out = {start, 0.0, 1.0, 0.0, 0.0};
    double low = -40.0, high = 40.0, x = log(start - 1.0);
    int i;
    high = small_only ? fa_cap_last_small_v(job) : fa_cap_last_v(job);
    high = log(fa_max(0.1 * (start - 1.0), high - 1.0));
    x = fa_min(x, high - 0.1);
    for (i = 0; i < 60; i++) {
        double v = 1.0 + exp(x), rest, step;
        fa_cap_real r = fa_cap_k(job, v, small_only);
        if (!(r.k < 1e300) || !(r.d2 < 1e300)) {
            high = x;
            x = fa_max(x - 1.0, 0.5 * (x + fa_max(low, x - 4.0)));
            continue;
        }
        rest = r.d1 - 1.0 / v - 1.0 / (v - 1.0) - eps;
        out.v = v;
        out.k = r.k;
        out.curvature = r.d2 + 1.0 / (v * v) + 1.0 / ((v - 1.0) * (v - 1.0));
        step = -rest / (out.curvature * (v - 1.0));
        if (rest > 0.0)
            high = x;
        else
            low = x;
        if (fabs(step) * (v - 1.0) * sqrt(out.curvature) < 0.4 || high - low < 1e-3)
            break;
        x += fa_max(-1.5, fa_min(1.5, step));
        if (!(x > low && x < high))
            x = low > -40.0 && high < 40.0 ? 0.5 * (low + high) : x <= low ? low + 0.5 : high - 0.5;
    }
    return out;
}

/* coarse nodes of one block for real exponents from v_min to v_max, or to the cap.  0: none */
FA_FUNC int fa_cap_fill_for(fa_cap_block *block, double v_min, double v_max)
{
    double s1 = block->sigma, end = block->w.cap + FA_CAP_CUT * block->w.width,
           z_high = block->walled ? end : fa_min(end, v_max + 9.0 * s1), edge = 1.0, narrow = INFINITY,
           h = fa_min(1.0 / (1.25 * s1), 0.9), z_low;
    z_low = fa_cap_begin(block, block->falls ? FA_CAP_LEFT : block->family->begin, v_min);
    if (z_high == end) {
        narrow = block->w.width;
        edge = narrow * block->inv_var * fa_cap_posterior(block, block->w.cap);
    }
    if (!block->family->rough(block, &block->coarse, h, edge, narrow, z_low, z_high,
                              block->walled || 2.0 * v_max * fa_cap_l(block, z_high) > FA_CAP_FAR))
        return 0;
    fa_cap_no_floor(&block->coarse);
    return 1;
}

/* narrower windows where the tilt v is too steep for them; how many, or -1: none in doubles */
FA_FUNC int fa_cap_narrow(fa_cap_job *job, double v)
{
    int b, count = 0;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        if (block->pieces || !(v > 0.7 * fa_cap_block_last_v(block)))
            continue;
        if (!fa_cap_set_cap(block, block->w.cap - FA_CAP_DEPTH * block->w.width, 0.5 * block->w.width))
            return -1;
        count++;
    }
    if (count)
        fa_cap_count_lost(job);
    return count;
}

/* whether the coarse nodes of some block end before what the tilt v asks for; v_max: what they are made for */
FA_FUNC int fa_cap_is_short(const fa_cap_job *job, double v, double v_max)
{
    int b;
    for (b = 0; b < job->n && v * 1.5 > v_max; b++) {
        const fa_cap_block *block = job->blocks + b;
        const fa_cap_nodes *s = &block->coarse;
        if (block->pieces)
            continue;
        if (v_max + 9.0 * block->sigma < block->w.cap + FA_CAP_CUT * block->w.width ||
            (!s->has_logs && 1.6 * v * s->sum.lr[s->sum.n - 1] > FA_CAP_FAR))
            return 1;
    }
    return 0;
}

/* losses above `level` are large, sharply: to see how many a tilt asks for */
FA_FUNC void fa_cap_hard_floor(fa_cap_nodes *s, double level)
{
    int j, from, n = s->sum.n;
    for (from = 0; from < n && s->sum.lr[from] <= level; from++)
        s->large[from] = s->above[from] = 0.0;
    s->lifted = from / FA_LANES * FA_LANES;
    for (j = from; j < n; j++) {
        s->large[j] = s->sum.wr[j];
        s->above[j] = 1.0;
    }
}

/* how many steps of this block the tilt v makes go beyond z */
FA_FUNC double fa_cap_tilted_beyond(fa_cap_block *block, double v, double z)
{
    double jumps;
    fa_cap_hard_floor(&block->coarse, fa_cap_l(block, z));
    jumps = fa_cap_block_k(block, &block->coarse, v, 0, 0.0).jumps;
    fa_cap_no_floor(&block->coarse);
    return jumps;
}

/* z beyond which a step's chance is nothing where losses fall without end: the others take the sum back by x with a
 * chance of at most E[exp(a L)]^T e^(a x), a = FA_MIX_PUT */
FA_FUNC double fa_cap_nothing_back(const fa_cap_job *job, const fa_cap_block *block, double eps, double log_size)
{
    double high = fa_cap_nothing(job, block, eps, log_size), low = fa_cap_z(block, eps),
           need = 0.5 * high * high * block->inv_var;
    int b, i;
    need += 0.5 * job->mu2 * FA_MIX_PUT * (FA_MIX_PUT - 1.0);
    for (b = 0; b < job->n; b++)
        need += fa_max(0.0, fa_cap_block_k(job->blocks + b, &job->blocks[b].coarse, FA_MIX_PUT, 0, 0.0).k);
    for (i = 0; i < 40 && high - low > 1e-3 * block->sigma; i++) {
        double mid = 0.5 * (low + high), back = fa_cap_l(block, mid) + block->kappa - eps;
        *(0.5 * mid * mid * block->inv_var - FA_MIX_PUT * back > need ? &high : &low) = mid;
    }
    return high;
}

/* Caps where all that is beyond is worth nothing to a delta of about exp(log_size), where the tilt v sees little else
 * than that: exponents would outweigh chances.  Those that are low already follow log_size.  How many moved, or -1:
 * none in doubles */
FA_FUNC int fa_cap_lower(fa_cap_job *job, const fa_cap_effort *effort, double eps, double v, double log_size)
{
    int b, count = 0;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        const fa_cap_windows *w = &block->w;
        double z, start = w->cap - FA_CAP_DEPTH * w->width;
        if (block->pieces)
            continue;
        z = job->taken_back > 0.0 ? fa_cap_nothing_back(job, block, eps, log_size)
                                  : fa_cap_nothing(job, block, eps, log_size);
        if (block->is_low
                ? !(z > start + w->width)
                : !(z < start - w->width) ||
                      !(effort->caps >= FA_CAPS_LOW || fa_cap_tilted_beyond(block, v, z) > FA_CAP_SEEN))
            continue;
        if (!fa_cap_begin_at(block, effort, z))
            return -1;
        block->is_low = 1;
        count++;
    }
    if (count)
        fa_cap_count_lost(job);
    return count;
}

/* about how large delta is at the saddle: the closed part and the saddle-point approximation */
FA_FUNC void fa_cap_guess_size(const fa_cap_job *job, double eps, fa_cap_saddle *out)
{
    double v = out->v, bulk = out->k - (v - 1.0) * eps - log(v * (v - 1.0)) - 0.5 * log(2.0 * FA_PI * out->curvature),
           ref = job->is_add ? bulk : fa_max(bulk, fa_min(job->lost.log_p, 0.0)), share = exp(bulk - ref);
    fa_cap_closed closed = fa_cap_closed_part(job, eps, ref);
    out->slope = -((v - 1.0) * share + closed.fall) / (share + fa_max(closed.value, 0.0));
    out->log_size = fa_min(ref + log(share + fa_max(closed.value, 0.0)), -1e-3);
}

/* caps, coarse nodes and saddle for eps, and about how large delta is there.  0: none */
FA_FUNC int fa_cap_place(fa_cap_job *job, const fa_cap_effort *effort, double eps, double start, fa_cap_saddle *out)
{
    double v = start, v_min = 0.0, v_max, variance = job->variance + job->mu2;
    int round, b, moved = 0, count;
    if (!fa_cap_place_cap(job, effort, eps))
        return 0;
    if (!(v > 1.0))
        v = fa_min(1.0 + fa_max(eps / variance, 1.0 / sqrt(variance)), 1.0 + 20.0 / eps);
    for (b = 0; b < job->n; b++) /* beyond, losses next to the cap outweigh all others */
        if (job->blocks[b].window.width > 0.0 && job->blocks[b].pieces->n_panels > 0)
            v = fa_min(v, 1.0 + FA_CAP_STEEP / job->blocks[b].window.at);
    v_max = job->is_add ? 1.0 : fa_max(4.0, 3.0 * v);
    for (round = 0; round < 6; round++) {
        for (b = 0; b < job->n; b++)
            if (!job->blocks[b].family->coarse(job->blocks + b, v_min, v_max))
                return 0;
        *out = fa_cap_find_saddle(job, eps, v, 0);
        fa_cap_guess_size(job, eps, out);
        if (job->is_add) {
            if (job->walled || out->v - 1.0 < -v_min || round == 3)
                break;
            v_min = -1.5 * (out->v - 1.0);
            continue;
        }
        if (fa_cap_is_short(job, out->v, v_max)) {
            v = out->v;
            v_max = 3.0 * v;
            continue;
        }
        if (moved++ == 8)
            break;
        count = fa_cap_lower(job, effort, eps, out->v, out->log_size);
        if (count == 0)
            count = fa_cap_narrow(job, out->v);
        if (count < 0)
            return 0;
        if (count == 0)
            break;
        round = 0;
    }
    return out->log_size == out->log_size;
}

/* log of a delta that no cap is to be seen by.  Added mixtures reach far beyond their noise, in its units: there caps
 * stand where this delta does not see them */
FA_INLINE double fa_cap_deepest(const fa_cap_job *job, double log_delta)
{
    return job->is_add && job->mixtures ? fa_max(FA_CAP_DEEPEST, log_delta - FA_CAP_UNSEEN) : FA_CAP_DEEPEST;
}

/* the same for a delta that may be far below what doubles hold */
FA_FUNC int fa_cap_place_deep(fa_cap_job *job, const fa_cap_effort *effort, double eps, double start,
                              fa_cap_saddle *out)
{
    job->deepest = FA_CAP_DEEPEST;
    if (!fa_cap_place(job, effort, eps, start, out))
        return 0;
    if (out->log_size > 0.8 * FA_CAP_DEEPEST && !(job->is_add && job->mixtures))
        return 1;
    job->deepest = out->log_size > 0.8 * FA_CAP_DEEPEST ? fa_cap_deepest(job, out->log_size) : 4.0 * out->log_size;
    return fa_cap_place(job, effort, eps, out->v, out);
}

typedef struct {
    int n;
    double v[FA_CAP_PROBES], log_f[FA_CAP_PROBES], noise[FA_CAP_PROBES], chernoff[FA_CAP_PROBES];
    double least; /* of log_f = log |F|; noise: log of about what rounds; chernoff: less the tolerance */
} fa_cap_probes;

/* log R(v) at points around the saddle; more of them where the line is going to be dear */
FA_FUNC void fa_cap_probe(const fa_cap_job *job, double eps, const fa_cap_saddle *at, double log_tol, int is_dear,
                          fa_cap_probes *out)
{
    static const double many[] = {0.0, 0.25, 0.5, 0.75, 1.05, 1.4, 1.9, 2.5, 3.3, 4.4, 6.0, 9.0, 13.0},
                        few[] = {0.0, 0.8, 2.0, 4.2, 8.5};
    const double *steps = is_dear ? many : few;
    double width = 1.0 / sqrt(at->curvature), last = fa_cap_last_v(job),
           d2 = at->curvature - 1.0 / (at->v * at->v) - 1.0 / ((at->v - 1.0) * (at->v - 1.0));
    int i, half = is_dear ? FA_CAP_PROBES / 2 : 4;
    out->n = 0;
    out->least = INFINITY;
    for (i = -half; i <= half; i++) {
        double own, step = width * steps[i < 0 ? -i : i],
                    v = i >= 0 ? at->v + step : 1.0 + (at->v - 1.0) / (1.0 + step / (at->v - 1.0)),
                    k = fa_cap_log_r(job, v);
        if (!(k < 1e300) || !(v < last) || (job->is_add && v - 1.0 > 3.0 * (at->v - 1.0)))
            break;
        out->v[out->n] = v;
        out->log_f[out->n] = k - (v - 1.0) * eps - log(v * (v - 1.0));
        own = 1.0 / ((v - 1.0) * (v - 1.0));
        out->noise[out->n] = (job->has_floor ? fa_max(k, fa_cap_k(job, v, 1).k) : k) - k + out->log_f[out->n] -
                             0.5 * log(2.0 * FA_PI * (d2 + 1.0 / (v * v) + own)) +
                             log(1e4 + v * eps + 100.0 * v * v * fa_min(d2, own));
        out->chernoff[out->n] = k + fa_log_b(v) - (v - 1.0) * eps - log_tol;
        out->least = fa_min(out->least, out->log_f[out->n]);
        out->n++;
    }
}

/* 2 pi/h that c = v[i] asks for, so that the aliases are below the tolerance: the least of (Chernoff - tolerance)/|v -
 * c| on either side */
FA_FUNC double fa_cap_period(const fa_cap_probes *p, int i, double log_tol, double *left_out, double *right_out)
{
    double c = p->v[i], left = -log_tol / (c - 1.0), right = INFINITY;
    int k;
    *left_out = 1.0;
    *right_out = c;
    for (k = 0; k < i; k++)
        if (p->chernoff[k] < left * (c - p->v[k])) {
            left = p->chernoff[k] / (c - p->v[k]);
            *left_out = p->v[k];
        }
    for (k = i + 1; k < p->n; k++)
        if (p->chernoff[k] < right * (p->v[k] - c)) {
            right = p->chernoff[k] / (p->v[k] - c);
            *right_out = p->v[k];
        }
    return fa_max(left, right);
}

/* the c with the longest step among those where |F(c)| is not far above delta = exp(log_size); no points where even
 * their whole is not worth a sum.  0: none */
FA_FUNC int fa_cap_choose_line(const fa_cap_job *job, const fa_cap_probes *p, double eps, double log_size,
                               double log_tol, double quiet, fa_cap_plan *plan)
{
    double best = INFINITY, period = 0.0, left, right, lowest = INFINITY;
    int i, least = 0;
    for (i = 1; i < p->n; i++) {
        least = p->chernoff[i] < p->chernoff[least] ? i : least;
        lowest = i < p->n - 1 ? fa_min(lowest, p->log_f[i]) : lowest;
    }
    plan->is_bare = p->n > 0 && p->chernoff[least] < 0.0;
    if (plan->is_bare) {
        plan->c = plan->right = p->v[least];
        plan->left = 1.0;
        plan->h = 1.0;
        plan->excess = 0.0;
        return 1;
    }
    for (i = 1; i < p->n - 1; i++) {
        double excess = p->log_f[i] - p->least, x = fa_max(fa_cap_period(p, i, log_tol, &left, &right),
                                                           1e-3 * fa_min(job->walled ? -job->least - eps : eps, 1.0));
        double noise = FA_EPS * exp(fa_min(100.0, p->noise[i] - log_size)),
               cost = x * (1.0 + 0.03 * excess + fa_min(quiet, 1e8 * noise));
        if (p->log_f[i] - log_size < fa_max(4.0, lowest - log_size + 1.0) && cost < best) {
            best = cost;
            period = x;
            plan->c = p->v[i];
            plan->left = left;
            plan->right = right;
            plan->excess = p->log_f[i] - log_size;
        }
    }
    if (!(best < INFINITY))
        return 0;
    plan->h = fa_from_bits(fa_bits(2.0 * FA_PI / period) & ~((1ULL << 22) - 1));
    return plan->h > 0.0;
}

#endif
