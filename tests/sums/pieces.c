/* pieces.c -- losses that are data (loss/pieces.h, line/pieces_nodes.h, line/ray_ends.h) against integrals in 80 bits:
 * program SEED LOSSES; as line.c.  Meshes are starved, so that the rule's error is seen.
 */
#define FA_MOMENTS_GOOD 1e-1
#include "sums.h"

#include "renyi/pieces_moments.h"

#define ROUNDED 1e-14L /* of nodes in doubles */

enum { PLAIN, SECOND, TAIL, WINDOWS, ENDS, REAL, MOMENTS, KINDS };
static const char *names[] = {"rule", "rule of second order", "share", "windows", "ends", "K", "moments"};
static long count[KINDS], broken[KINDS];
static double most[KINDS];

static void compare(int i, ld measured, ld bound)
{
    double share = measured <= 0.0L ? 0.0 : bound > 0.0L ? (double)(measured / bound) : INFINITY;
    if (!(measured < INFINITY && bound < INFINITY))
        return;
    count[i]++;
    most[i] = share > most[i] ? share : most[i];
    broken[i] += share > 1.0;
}

/* exp(s) - 1 - s */
static lc second(lc s)
{
    lc sum = 0.0L, term = 1.0L;
    int k;
    if (cabsl(s) > 0.5L)
        return cexpl(s) - 1.0L - s;
    for (k = 2; k < 30; k++) {
        term = (k == 2 ? s * s * 0.5L : term * s / k);
        sum += term;
    }
    return sum;
}

static ld sample_of(const fa_panel *p, ld x) { return p->rate < 1.0 ? log1pl((ld)p->rate * expm1l(x)) : x; }
static ld back_of(const fa_panel *p, ld x) { return p->replaced > 0.0 ? sample_of(p, -x - p->replaced) : 0.0L; }
static ld loss_of(const fa_panel *p, ld x) { return sample_of(p, x) - back_of(p, x) + p->shift; }

/* E[exp(u l)] or that of exp(u l) - 1 - u l, l = L - mean, atoms and panels, by 64 points in each of `cuts` parts */
static lc truth(const fa_pieces *law, lc u, ld mean, int kind, int cuts)
{
    lc sum = 0.0L;
    int i, j, k, place = fa_gauss_place(64);
    ld side = law->is_flipped ? -1.0L : 1.0L;
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        ld half = 0.5L * ((ld)p->high - p->low) / cuts;
        for (k = 0; k < cuts; k++)
            for (j = -32; j < 32; j++) {
                int at = place + (j < 0 ? -j - 1 : j);
                ld x = p->low + half * (2 * k + 1 + (j < 0 ? -1.0L : 1.0L) * (ld)fa_gauss_node[at]), l = loss_of(p, x),
                   away = x - p->centre, turned = (p->turned != 0.0) != law->is_flipped,
                   density = expl((ld)p->log_density + (ld)p->slope * (x - p->low) - 0.5L * p->curve * away * away +
                                  back_of(p, x) + turned * l);
                lc s = u * ((turned ? -l : l) - mean);
                sum += (ld)fa_gauss_weight[at] * half * density * (kind ? second(s) : cexpl(s));
            }
    }
    for (i = 0; i < law->n_atoms; i++) {
        ld l = law->atoms[i].loss, w = expl((ld)law->atoms[i].log_weight + (law->is_flipped ? l : 0.0L));
        lc s = u * (side * l - mean);
        sum += w * (kind ? second(s) : cexpl(s));
    }
    return sum;
}

/* the same by the nodes of a mesh */
static lc summed(const fa_node_rows *rows, int n, lc u, ld mean, int kind)
{
    lc sum = 0.0L;
    int j;
    for (j = 0; j < n; j++) {
        lc s = u * ((ld)rows->loss[j] - mean);
        sum += expl((ld)rows->log_weight[j]) * (kind ? second(s) : cexpl(s));
    }
    return sum;
}

/* Laplace's losses up to `top`, whole or sampled, with or without atoms */
static void draw(fa_pieces *law, fa_atom *atoms, fa_panel *panel, double top)
{
    double q = uniform(0.0, 1.0) < 0.4 ? 1.0 : between(1e-3, 0.9), end;
    int with_atoms = uniform(0.0, 1.0) < 0.7, k;
    *panel = (fa_panel){.low = -top, .high = top, .slope = -0.5, .rate = q, .fine = 8.0};
    panel->log_density = with_atoms ? log(0.25) : log(0.5 / -expm1(-top));
    for (k = 0; k < 2 && with_atoms; k++) {
        double slope;
        end = k ? top : -top;
        atoms[k] = (fa_atom){fa_panel_loss(panel, end, &slope), log(0.5) - (k ? top : 0.0), 0.0, 8.0};
    }
    *law = (fa_pieces){with_atoms ? 2 : 0, 1, uniform(0.0, 1.0) < 0.4, atoms, panel, {0}};
}

/* losses of Gaussian noise above 0, sampled or not, their mirror images, and an atom at 0: the batch of fixed size.
 * Or, in sight of everyone, a sample in which a record is replaced */
static void draw_curved(fa_pieces *law, fa_atom *atom, fa_panel *panels)
{
    double mu = between(0.2, 3.0), q = uniform(0.0, 1.0) < 0.2 ? 1.0 : between(1e-3, 0.9), high;
    int i, with_replaced = q < 1.0 && uniform(0.0, 1.0) < 0.5;
    high = mu * (20.0 + 0.5 * mu);
    for (i = 0; i < 2; i++) {
        panels[i] = (fa_panel){.high = high, .rate = q, .fine = 8.0, .turned = i == 0};
        panels[i].curve = 1.0 / (mu * mu);
        panels[i].centre = -0.5 * mu * mu;
        panels[i].log_density = -log(mu * sqrt(2.0 * FA_PI));
    }
    if (with_replaced) {
        panels->turned = 0.0;
        panels->low = -mu * (20.0 + 1.5 * mu);
        panels->replaced = mu * mu;
    }
    *atom = (fa_atom){0.0, q < 1.0 ? log1p(-q) + log(erf(mu * sqrt(0.125))) : -800.0, 0.0, 8.0};
    *law = (fa_pieces){1, 2, uniform(0.0, 1.0) < 0.4, atom, panels, {0}};
}

static void check_rule(const fa_pieces *law)
{
    static double room[4][16384];
    fa_node_rows rows = {room[0], room[1], room[2], room[3]};
    double range = fa_pieces_end(law, 1) - fa_pieces_end(law, 0), t = uniform(0.0, 120.0) / range,
           v = uniform(-6.0, 12.0) / range, mean = uniform(fa_pieces_end(law, 0), fa_pieces_end(law, 1));
    fa_asked some = {v, t * between(0.3, 1.0), 0.0, 0.0};
    fa_mesh mesh = {0, 0, 0, NULL};
    int n, kind, i;
    some.mean = fa_pieces_size(law, law->is_flipped ? 1.0 - v : v) / v;
    if (!fa_pieces_mesh(law, &some, &some, between(1e-9, 10.0), 8192.0, &mesh))
        exit(4);
    n = fa_pieces_fill(law, &mesh, &rows);
    for (i = 1; i < n; i++)
        broken[PLAIN] += rows.loss[i] < rows.loss[i - 1];
    for (kind = 0; kind < 2; kind++)
        for (i = 0; i < 3; i++) {
            ld here = i ? uniform(0.0, t) : t;
            lc u = v + here * I, off = truth(law, u, mean, kind, 32) - summed(&rows, n, u, mean, kind);
            fa_asked ask = {v, t, mean, kind ? sqrt(v * v + t * t) : 0.0};
            ld size = cabsl(truth(law, v, mean, 0, 32)) + (kind ? 1.0L + cabsl(u) * range : 0.0L);
            compare(kind ? SECOND : PLAIN, cabsl(off) - ROUNDED * size * (1.0L + cabsl(u) * range),
                    fa_mesh_error(law, &mesh, &ask, &ask));
        }
    fa_mesh_free(&mesh);
}

static void check_tail(fa_cap_job *job, const fa_pieces *law, double c)
{
    double range = fa_pieces_end(law, 1) - fa_pieces_end(law, 0), t, bound;
    int i;
    if (!fa_cap_job_clear(job, 1))
        exit(1);
    fa_cap_job_add_pieces(job, law, 1.0);
    job->blocks->nodes.mean = 0.0;
    for (i = 0; i < 6; i++) {
        ld here;
        t = between(0.05, 200.0) / range;
        here = t * (i ? between(1.0, 6.0) : 1.0);
        bound = fa_pieces_majorant(job->blocks, c, t);
        compare(t * range < PI ? WINDOWS : TAIL, cabsl(truth(law, c + here * I, 0.0L, 0, 64)), expl((ld)bound));
        compare(TAIL, cabsl(truth(law, c + here * I, 0.0L, 0, 64)),
                expl((ld)fa_share_beyond(fa_pieces_share(law, c), t)));
    }
}

static void check_ends(const fa_pieces *law)
{
    fa_ends ends;
    double range = fa_pieces_end(law, 1) - fa_pieces_end(law, 0), c = 1.0 + uniform(0.0, 6.0) / range,
           t = between(2.0, 400.0) / range;
    lc u = c + t * I, w, sum = 0.0L, want;
    int e, j, terms = 4 + (int)uniform(0.0, 24.0);
    if (!fa_pieces_ends(law, &ends))
        exit(2);
    w = 1.0L / (u - (ends.is_flipped ? 1.0L : 0.0L));
    for (e = 0; e < 2; e++) {
        lc a = 0.0L;
        for (j = terms - 1; j >= 0; j--)
            a = (a + ends.end[e].coef[j]) * w;
        sum += (a + ends.end[e].atom) * cexpl(u * ends.end[e].place);
    }
    want = truth(law, u, 0.0L, 0, 64);
    compare(ENDS, cabsl(want - sum) - 1e-12L * cabsl(want) - 1e-13L * expl(c * ends.end[1].place),
            ends.rest[terms - 1] * expl((c - (ends.is_flipped ? 1.0L : 0.0L)) * ends.end[1].place) *
                powl(cabsl(1.0L / w), -terms));
}

static void check_real(fa_cap_job *job, const fa_pieces *law)
{
    fa_flat_place at;
    int i;
    if (!fa_cap_job_clear(job, 1))
        exit(1);
    fa_cap_job_add_pieces(job, law, 3.0);
    if (!fa_flat_find(job, 0.3 * job->top, 0.0, &at))
        exit(3);
    for (i = 0; i < 3; i++) {
        double v = uniform(1.0 - at.most, at.most);
        fa_cap_real r = fa_flat_k(job, v);
        compare(REAL, fabsl(r.k - 3.0L * logl(creall(truth(law, v, 0.0L, 0, 64)))) - 1e-12L * (1.0L + fabsl(r.k)),
                1.01L * r.rest);
    }
}

/* K' by a step beside the real line, which cancels nothing */
static ld slope_of(const fa_pieces *law, ld u)
{
    lc m = truth(law, u + 1e-30L * I, 0.0L, 0, 64);
    return cimagl(m) / creall(m) * 1e30L;
}

/* K, K' and K'' at s of either sign; the second derivative by a difference */
static void check_moments(const fa_pieces *law)
{
    double range = fa_pieces_end(law, 1) - fa_pieces_end(law, 0), s = uniform(-1.0, 1.0) * between(0.1, 400.0) / range,
           lost[3] = {0.0, 0.0, 0.0}, row[6];
    fa_moments_kept kept = {.n = 0};
    ld h = 1e-4L / range, u = 1.0L + s, want[3], slack[3];
    int i;
    fa_pieces_moments(law, s, lost, &kept, row);
    fa_moments_free(&kept);
    want[0] = logl(creall(truth(law, u, 0.0L, 0, 64)));
    want[1] = slope_of(law, u);
    want[2] = (slope_of(law, u + h) - slope_of(law, u - h)) / (2.0L * h);
    slack[0] = 4e-16L * (2.0L + fabsl(u) + fabsl(want[0])); /* masses in doubles miss 1 */
    slack[1] = 1e-16L * (1.0L + range);
    slack[2] = 2e-9L * range * range;
    for (i = 0; i < 3; i++) {
        ld middle = 0.5L * ((ld)row[2 * i] + row[2 * i + 1]);
        compare(MOMENTS, fabsl(want[i] - middle) - slack[i], 0.5L * ((ld)row[2 * i + 1] - row[2 * i]));
    }
}

int main(int argc, char **argv)
{
    int i, losses = argc > 2 ? atoi(argv[2]) : 100;
    fa_cap_job job;
    memset(&job, 0, sizeof(job));
    state = argc > 1 ? (uint64_t)atoi(argv[1]) : 1;
    for (i = 0; i < losses; i++) {
        fa_atom atoms[2];
        fa_panel panel, both[2];
        fa_pieces law;
        if (i % 2 == 0) {
            draw_curved(&law, atoms, both);
            check_rule(&law);
            check_tail(&job, &law, uniform(0.2, 12.0) / both->high);
            check_tail(&job, &law, uniform(0.2, 6.0));
            if (both->low == 0.0)
                check_moments(&law);
        }
        draw(&law, atoms, &panel, between(0.01, 8.0));
        check_rule(&law);
        check_tail(&job, &law, uniform(0.2, 12.0) / (fa_pieces_end(&law, 1) - fa_pieces_end(&law, 0)));
        check_ends(&law);
        check_real(&job, &law);
        check_moments(&law);
        draw(&law, atoms, &panel, between(400.0, 1200.0)); /* weights of large losses are below all floats */
        check_tail(&job, &law, uniform(0.3, 1.8));
    }
    fa_cap_job_free(&job);
    for (i = 0; i < KINDS; i++)
        printf("%s|%ld|%ld|%.3g\n", names[i], count[i], broken[i], most[i]);
    return 0;
}
