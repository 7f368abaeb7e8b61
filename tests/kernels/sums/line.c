/* line.c -- every bound in the ledger of a capped line against direct sums in 80 bits, on random lines that are drawn
 * so coarsely that the bounds matter.  program KIND SEED CELLS: of each comparison how often it was made, how often the
 * bound was broken, and the largest share of the bound that was needed; tests/kernels/test_direct_sums.py.
 */
#include "tail.h"

/* the sums of the kernel at some point, and of the large losses */
static void sums_at(drawn *d, int k, lc *all, lc *large)
{
    fa_cap_nodes *s = &d->b->nodes;
    const fa_turning plain = {s->sum.vr, s->sum.vi, NULL, NULL, s->sum.er, s->sum.ei, NULL, NULL};
    double re[FA_RUN], im[FA_RUN], large_re[FA_RUN] = {0.0}, large_im[FA_RUN] = {0.0};
    int first;
    fa_cap_first_step(s, d->tilt, d->p->h);
    for (first = 0; first <= k; first += FA_RUN) {
        if (first % FA_CAP_SYNC == 0 && d->b->walled)
            fa_cap_start_plain(s, d->tilt, first * d->p->h);
        else if (first % FA_CAP_SYNC == 0)
            fa_cap_start(s, d->tilt, first * d->p->h, first);
        if (first % FA_CAP_SYNC == 0 && d->b->split)
            fa_cap_start_large(s, d->tilt, first * d->p->h);
        if (d->b->walled)
            fa_turn_run(&plain, 0, s->sum.n, 0, re, im);
        else
            fa_phasor_run(&s->sum, re, im);
        if (d->b->split)
            fa_cap_run_large(s, large_re, large_im);
    }
    k %= FA_RUN;
    *all = re[k] + (lc)I * im[k];
    *large = large_re[k] + (lc)I * large_im[k];
}

/* B0 and D at the first, a middle and the last point: quadrature and ends, rounding, and all together; the mean */
static void check_points(drawn *d)
{
    fa_cap_errors e;
    const fa_cap_nodes *s = &d->b->nodes;
    int i, at[3] = {0, d->work.line.n / 2, d->work.line.n - 1}, order = d->b->walled ? 0 : 2;
    ld at_c = creall(whole(&d->law, d->b, KEEP, d->tilt, 0, d->own_shift)),
       furthest = loss_at(&d->law, d->b->nodes.z[s->sum.n - 1]), /* whose phase has so few digits in 80 bits */
       other = d->law.records > 1 ? 0x1p-52L : 0.0L; /* of weights that are rounded: Mixture.rounding pays */
    fa_cap_count_errors(d->b, &d->work.line, &e);
    for (i = 0; i < 3; i++) {
        lc u = d->tilt + (lc)I * (at[i] * (ld)d->p->h), all, large, nodes, true_all;
        ld size = cabsl(u), rounding = fminl(e.far, e.near * size * size / ((ld)d->tilt * d->tilt));
        sums_at(d, at[i], &all, &large);
        nodes = node_sum(&d->law, d->b, KEEP, u, order, d->own_shift);
        true_all = whole(&d->law, d->b, KEEP, u, order, d->own_shift);
        compare(d, "quadrature and ends of B0", cabsl(nodes - true_all), e.fixed,
                1e-17L * (order ? 2.0L + size * fabsl(d->shift) : at_c) + 2e-19L * size * at_c * furthest);
        compare(d, "rounding of B0", cabsl(all - nodes), rounding, 0.0L);
        true_all = order ? whole(&d->law, d->b, KEEP, u, 0, d->shift) : true_all;
        all = order ? 1.0L - d->b->w.q_mass + u * (ld)s->linear + all : all;
        compare(d, "B0", cabsl(all - true_all), e.fixed + e.mean * size + rounding,
                order ? 2e-16L + other * size * at_c : 1e-17L * at_c);
        if (!d->b->split)
            continue;
        nodes = node_sum(&d->law, d->b, LARGE, u, 0, d->shift);
        true_all = whole(&d->law, d->b, LARGE, u, 0, d->shift);
        compare(d, "quadrature of D", cabsl(nodes - true_all), e.large, 1e-17L * cabsl(true_all));
        compare(d, "D", cabsl(large - true_all), e.large, 0.0L);
    }
    if (!d->b->walled) {
        ld mean = -creall(whole(&d->law, d->b, KEEP, 1.0L, 2, -d->law.kappa)),
           nodes = -creall(node_sum(&d->law, d->b, KEEP, 1.0L, 2, -d->law.kappa));
        compare(d, "quadrature and ends of the mean", fabsl(mean - nodes), e.mean, 2e-17L * fabsl(mean));
        compare(d, "mean", fabsl(mean - s->mean), s->mean_error + e.mean, 0.0L);
    }
}

/* all points: what errors of B0 and D make of the sum of F */
static void check_sum(drawn *d)
{
    const fa_cap_line *line = &d->work.line;
    ld n = d->at.steps, measured = 0.0L, eps = d->at.eps;
    int k, is_add = d->work.job.is_add;
    if ((d->at.starved != 1 && d->at.starved != 2) || line->n > (d->b->walled ? 40 : 120))
        return;
    for (k = 0; k < line->n; k++) {
        lc u = d->tilt + (lc)I * (k * (ld)d->p->h), at = d->c + (lc)I * (k * (ld)d->p->h),
           b0 = whole(&d->law, d->b, KEEP, u, 0, d->shift), value = n * (clogl(b0) + u * (ld)d->b->nodes.mean);
        if (d->b->split) {
            lc low = 1.0L - whole(&d->law, d->b, LARGE, u, 0, d->shift) / b0;
            value += clogl(-power(n * (logl(cabsl(low)) + (lc)I * cargl(low)), 1));
        }
        value = (is_add ? conjl(value) : value) - (at - 1.0L) * eps - clogl(at * (at - 1.0L)) - line->ref;
        measured += (k ? 1.0L : 0.5L) * cabsl(cexpl(value) - cexpl(line->log_f[k] + (lc)I * (ld)line->arg_f[k]));
    }
    compare(d, "all points", measured * d->p->h / PI * expl((ld)line->ref - d->r.log_value),
            d->g.quadrature + d->g.rounding, 1e-17L);
}

/* what errors of D make of the points is in the ledger */
static void check_floor(drawn *d)
{
    fa_cap_line *line = &d->work.line;
    if (!d->work.job.has_floor)
        return;
    fa_cap_count_errors(d->b, line, &d->b->errors);
    fa_cap_gather(&d->work.job, d->b, line, 1);
    compare(d, "errors of D at the points",
            1.02 * d->p->h / FA_PI * fa_cap_weigh_floor(&d->work.job, line, line->ref - d->r.log_value),
            d->g.rounding * (1.0 + 1e-9), 0.0L);
}

/* K at Chernoff's points, over what it is without its error */
static void check_chernoff(drawn *d)
{
    fa_cap_job *job = &d->work.job;
    ld n = d->at.steps, mean = d->b->nodes.mean;
    int i;
    for (i = 0; i < 3; i++) {
        int small = i == 2;
        double v = small ? d->p->low : i ? d->p->left : d->p->right, x = small && job->walled ? v : fa_cap_tilt(job, v);
        ld k, bound, base, quad;
        fa_cap_real r;
        if (!(v > 1.0) || (small && !job->has_floor) || (i == 1 && d->p->is_bare))
            continue;
        fa_cap_measure(job, &d->work.line, d->t, fa_cap_tilt(job, i == 1 ? d->p->left : d->p->right));
        if (small)
            quad = creall(moment(&d->law, d->b, SMALL, x, 0, d->shift, -INFINITY, d->b->nodes.z[d->b->nodes.seen - 1]));
        else
            quad = creall(whole(&d->law, d->b, KEEP, x, 0, d->shift));
        k = n * (logl(quad) + x * mean);
        bound = fa_cap_chernoff(job, v, small);
        r = fa_cap_block_k(d->b, &d->b->nodes, x, small, 0.0);
        base = n * (x * mean + (job->walled ? logl(r.one) : log1pl(r.rest)));
        if (!small && job->has_floor) {
            ld large = creall(whole(&d->law, d->b, LARGE, x, 0, d->shift));
            k += logl(-expm1l(n * log1pl(-large / quad)));
            base += logl(-expm1l(n * log1pl(-fminl(1.0L, r.jumps / n))));
        }
        if (small || !job->has_floor) /* quadrature and ends, either way */
            compare(d, small ? "sum of small losses" : i ? "sum on the left" : "sum on the right",
                    fabsl(quad - (job->walled ? r.one : 1.0L + r.rest)),
                    expl(bound / n - x * mean) - (job->walled ? r.one : 1.0L + r.rest), 2e-16L * quad);
        compare(d, small ? "K of small losses" : i ? "K on the left" : "K on the right", k - base, bound - base,
                1e-17L * (fabsl(k) + n));
    }
    fa_cap_measure(job, &d->work.line, d->t, fa_cap_tilt(job, d->p->right));
}

/* J(a) and M(a) of `put`, in logarithms */
static void check_put(drawn *d)
{
    static const double exponents[] = {-0.3, -1.0, -3.9, -15.0};
    int i;
    if (d->work.job.is_add || d->b->w.log_q < -3000.0)
        return;
    fa_cap_weigh_beyond(d->b);
    for (i = 0; i < 4; i++) {
        double a = exponents[i];
        fa_cap_beyond at;
        ld j, m;
        if (d->law.n_q > 1 && a < FA_MIX_PUT)
            continue;
        if (!fa_cap_beyond_at(d->b, a, &at))
            continue;
        j = creall(whole(&d->law, d->b, BEYOND, a, 0, -d->law.kappa));
        m = creall(whole(&d->law, d->b, KEEP, a, 0, -d->law.kappa)) + j;
        compare(d, "J(a)", d->at.steps * j, expl((ld)at.log_j), 0.0L);
        compare(d, "M(a)", m, expl((ld)at.log_m + (ld)at.slop / d->at.steps), 0.0L);
    }
}

/* the closed part, over exp(ref): its value in 80 bits, and of few added steps what the windows make of it */
static void check_closed(drawn *d)
{
    const fa_cap_windows *w = &d->b->w;
    double ref = d->r.log_value, eps = d->at.eps;
    fa_cap_closed closed = fa_cap_closed_part(&d->work.job, eps, ref);
    ld n = d->at.steps, sd = sqrtl(d->law.sigma * d->law.sigma + (ld)w->width * w->width), value,
       bound = d->g.closed;
    if (d->b->walled && d->work.job.has_floor) {
        ld cut = d->b->nodes.z[d->b->nodes.seen - 1], x = eps + n * d->law.kappa, q, p, less_q, less_p, side;
        sd = sqrtl(d->law.sigma * d->law.sigma + (ld)w->floor_width * w->floor_width);
        q = normal_tail(-(ld)w->floor / sd);
        p = q + d->law.rate / (1.0L - d->law.rate) * normal_tail((1.0L - w->floor) / sd);
        value = powl(q, n) * -expm1l(x + n * logl(p / q));
        side = expl(-(ld)ref);
        compare(d, "closed part", fabsl(value * side - closed.value), bound, 0.0L);
        less_q = creall(moment(&d->law, d->b, LOW, 0.0L, 0, 0.0L, cut, INFINITY)) +
                 creall(moment(&d->law, d->b, APART, 0.0L, 0, 0.0L, -INFINITY, cut));
        less_p = creall(moment(&d->law, d->b, LOW, 1.0L, 0, 0.0L, cut, INFINITY)) +
                 creall(moment(&d->law, d->b, APART, 1.0L, 0, 0.0L, -INFINITY, cut));
        value = powl(q, n) * expm1l(n * log1pl(-less_q / q)) - expl(x) * powl(p, n) * expm1l(n * log1pl(-less_p / p));
        compare(d, "what is closed below the floor and not there", side * fabsl(value),
                fa_cap_low_apart(&d->work.job, eps, ref), 0.0L);
        compare(d, "that in the error of the closed part", fa_cap_low_apart(&d->work.job, eps, ref), bound, 0.0L);
    }
    else if (!d->work.job.is_add && closed.fall > 0.0) {
        ld j0 = 0.0L, gain = 0.0L, none;
        int i;
        for (i = 0; i < d->law.n_q; i++)
            j0 += d->law.q[i] * normal_tail((w->cap - d->law.b[i]) / sd);
        for (i = 0; i < d->law.n_p; i++)
            gain += d->law.p[i] * normal_tail((w->cap - d->law.m[i]) / sd);
        gain -= j0;
        none = n * log1pl(-j0);
        value = expl(none) * -expm1l(n * log1pl(-gain / (1.0L - j0))) - expm1l((ld)eps) * -expm1l(none);
        compare(d, "closed part", fabsl(value * expl(-(ld)ref) - closed.value), bound, 0.0L);
    }
}

/* nodes as the line's, with a step `finer` times smaller, or further to the left or right.  0: none, or it is the odd
 * ones of them that are every second one of the line's */
static int other_nodes(const drawn *d, fa_cap_block *out, int finer, double first, double end)
{
    const fa_cap_nodes *s = &d->b->nodes;
    double moved;
    int j;
    *out = *d->b;
    memset(&out->nodes, 0, sizeof(out->nodes));
    if (!(is_mixture(out) ? fa_mix_fill(out, &out->nodes, s->h / finer * (1.0 + 1e-9), first, end)
                          : fa_cap_fill(out, &out->nodes, s->h / finer, s->stretch, first, end)))
        return 0;
    if (!is_mixture(out))
        fa_cap_bends(out, &out->nodes);
    fa_cap_finish_nodes(&d->work.job, out, d->p->low);
    moved = s->mean - out->nodes.mean;
    for (j = 0; j < out->nodes.sum.n; j++)
        out->nodes.sum.lr[j] -= moved;
    out->nodes.mean = s->mean;
    out->nodes.mean_error = s->mean_error;
    out->nodes.linear = s->linear;
    return fmod(round((s->start - out->nodes.start) / s->h), 2.0) == 0.0;
}

static double near_first(const drawn *d, int finer)
{
    const double *z = d->b->nodes.z;
    return z[0] + 0.3 / finer * (z[1] - z[0]);
}

/* a sum of moduli along the tail's curve, with the step of the nodes, against one that is eight times finer */
static void check_modulus_sum(drawn *d)
{
    fa_cap_line *line = &d->work.line;
    double t = (line->n - 1) * d->p->h, top = fa_cap_curve_top(d->b, line, t, 1.0), slack, none, coarse, fine, narrow;
    fa_cap_block other;
    if (is_mixture(d->b)) {
        fa_mix_curve curve = fa_mix_curve_of(d->b, line, t, top);
        check_rise(d, &curve);
    }
    if (d->effort.left < 10.0 || !(d->b->w.cap > d->b->nodes.z[d->b->nodes.sum.n - 1] + 9.0 * d->b->w.width))
        return; /* ends, and the window's own part, are paid elsewhere */
    if (other_nodes(d, &other, 8, near_first(d, 8), d->b->nodes.z[d->b->nodes.sum.n - 1])) {
        if (is_mixture(d->b)) {
            fa_mix_curve curve = fa_mix_curve_of(d->b, line, t, top);
            coarse = fa_mix_majorant(d->b, &curve, 1.0, 0, &slack);
            fine = fa_mix_majorant(&other, &curve, 0.0, 0, &none);
            if (coarse < INFINITY && fine < 299.0)
                compare(d, "sum of moduli", fine - coarse, slack, 0.0L);
        }
        for (narrow = 1.0; narrow > 0.2 && !is_mixture(d->b); narrow *= 0.5) {
            fa_cap_curve curve = fa_cap_curve_of(d->b, line, t, top, narrow);
            coarse = fa_cap_majorant(d->b, &curve, 1.0, 0, &slack);
            fine = fa_cap_majorant(&other, &curve, 0.0, 0, &none);
            if (coarse < INFINITY && fine < 299.0)
                compare(d, "sum of moduli", fine - coarse, slack, 0.0L);
        }
    }
    free(other.nodes.memory);
}

/* integrals of moduli beyond the nodes: of nodes that go on no bound is larger */
static void check_beyond(drawn *d)
{
    const fa_cap_nodes *s = &d->b->nodes;
    double z0 = s->z[0], end = s->z[s->sum.n - 1], right = fa_cap_tilt(&d->work.job, d->p->right),
           further = fa_max(fa_cap_line_end(&d->work.job, d->b, d->p->right, d->p->low, 12.0), end);
    int i;
    /* the steps know no edge of a window beyond the nodes, which is wide off the line */
    further = fa_min(further, d->b->w.cap - 10.0 * d->b->w.width - d->b->strip * d->b->sigma * d->b->sigma);
    for (i = 0; i < 6 && (d->at.starved == 3 || d->at.starved == 5); i++) {
        fa_cap_block other = {0};
        if ((i || further > end) && other_nodes(d, &other, 1, i ? z0 - (3.0 + 0.3 * i) * d->b->sigma : near_first(d, 1),
                                                i ? end : further)) {
            fa_cap_moduli mine, more;
            /* their number is a multiple of 16: those further out go, for past a cap the last value counts too often */
            while (other.nodes.z[other.nodes.sum.n - 1] > (i ? end : further))
                other.nodes.sum.n--;
            mine = fa_cap_quadrature(&d->work.job, d->b, &d->work.line, d->t, right);
            more = fa_cap_quadrature(&d->work.job, &other, &d->work.line, d->t, right);
            if (!(mine.line < 1.0)) { /* a line that says nothing */
                free(other.nodes.memory);
                return;
            }
            compare(d, i ? "moduli left, line" : "moduli right, line", more.line, mine.line, 1e-12L * mine.line);
            compare(d, i ? "moduli left, K" : "moduli right, K", more.right, mine.right, 1e-12L * mine.right);
            if (!d->b->walled)
                compare(d, i ? "moduli left, mean" : "moduli right, mean", more.mean, mine.mean, 1e-12L * mine.mean);
            if (d->b->split)
                compare(d, i ? "moduli left, D" : "moduli right, D", more.large, mine.large, 1e-12L * mine.large);
            i = i ? 6 : 0;
        }
        free(other.nodes.memory);
    }
}

/* what lies beyond the last node, where the nodes are cut off anywhere */
static void check_ends(drawn *d)
{
    fa_cap_nodes *s = &d->b->nodes;
    int i, n = s->sum.n;
    for (i = 0; i < 2; i++) {
        double v = d->work.job.walled ? 1.0 : fa_cap_tilt(&d->work.job, d->p->right);
        int last = i ? n - 1 - (int)uniform(1.0, 0.3 * n) : n - 1;
        if (!(v > 0.0))
            continue;
        s->sum.n = last + 1;
        compare(d, "losses beyond the nodes",
                creall(moment(&d->law, d->b, KEEP, v, 0, d->shift, s->z[last], INFINITY)),
                fa_cap_right_end(d->b, v, fabs(v)), 1e-300L);
        s->sum.n = n;
    }
}

/* two added steps: what the caps take from delta, over delta */
static void check_lost(drawn *d)
{
    enum { N = 160 };
    ld z[N], l[N], weight[N], beyond[N], lost = 0.0L, eta = -d->at.steps * d->law.kappa - d->at.eps,
       end = fa_cap_z(d->b, (double)(eta + d->law.kappa)), low = -9.0L * d->law.sigma - d->b->deep, h = (end - low) / N;
    int i, j;
    if (!d->b->walled || d->at.steps != 2.0)
        return;
    for (i = 0; i < N; i++) {
        z[i] = low + (i + 0.5L) * h;
        l[i] = loss_at(&d->law, z[i]);
        weight[i] = expl(log_density_q(&d->law, z[i])) * h;
        beyond[i] = window(d->b, BEYOND, z[i]);
    }
    for (i = 0; i < N; i++)
        for (j = 0; j < N && l[i] + l[j] < eta; j++)
            lost -= weight[i] * weight[j] * (beyond[i] + beyond[j]) * expm1l(l[i] + l[j] - eta);
    compare(d, "what the caps take", lost / expl((ld)d->r.log_value), d->g.put, 0.0L);
}

int main(int argc, char **argv)
{
    static drawn d;
    int kind = argc > 1 ? atoi(argv[1]) : 0, i, n = argc > 3 ? atoi(argv[3]) : 10, none = 0;
    state = argc > 2 ? (uint64_t)atoi(argv[2]) : 1;
    for (i = 0; i < n; i++) {
        d.at = random_cell(kind);
        if (!draw(&d)) {
            none++;
            continue;
        }
        check_chernoff(&d);
        check_put(&d);
        check_closed(&d);
        if (!d.p->is_bare) {
            check_points(&d);
            check_sum(&d);
            check_floor(&d);
            check_modulus_sum(&d);
            check_beyond(&d);
            check_tail(&d);
            if (!d.at.records)
                check_left_of_nodes(&d);
        }
        check_ends(&d);
        check_lost(&d);
    }
    for (i = 0; i < NAMES && names[i]; i++)
        printf("%s|%ld|%ld|%.3g\n", names[i], count[i], broken[i], most[i]);
    printf("no line|%d|0|0\n", none);
    return 0;
}
