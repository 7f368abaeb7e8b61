/* pieces.c -- losses that are data (loss/pieces.h, line/pieces_nodes.h, line/ray_ends.h, line/long_line.h) against
 * integrals in 80 bits: program SEED LOSSES; as line.c.  Meshes are starved, so that the rule's error is seen.
 */
#define FA_MOMENTS_GOOD 1e-1
#include "sums.h"
#include "tally.h"

#include "laws.h"

#define ROUNDED 1e-14L /* of nodes in doubles */

enum { PLAIN, SECOND, TAIL, WINDOWS, ENDS, END, REAL, MOMENTS, FAR, FIRST, FAR_SHARE, FAR_TAIL, KINDS };
static const char *names[] = {"rule", "rule of second order", "share", "windows", "ends", "one end", "K", "moments",
                              "a moment far along a line", "a line's first moment", "its share", "beyond a long line"};

static void check_rule(const fa_pieces *law)
{
    static double room[4][16384];
    fa_node_rows rows = {room[0], room[1], room[2], room[3]};
    double range = fa_pieces_end(law, 1) - fa_pieces_end(law, 0), t = uniform(0.0, 120.0) / range,
           v = uniform(-6.0, 12.0) / range, mean = uniform(fa_pieces_end(law, 0), fa_pieces_end(law, 1));
    fa_asked some = {v, t * between(0.3, 1.0), 0.0, 0.0};
    fa_mesh mesh = {0, 0, 0, NULL};
    int n, kind, i;
    some.mean = fa_pieces_size(law, law->is_flipped ? 1.0 - v : v, FA_NO_EDGES) / v;
    if (!fa_pieces_mesh(law, &(const fa_demand){&some, &some, between(1e-9, 10.0)}, 1, 8192.0, &mesh))
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
                expl((ld)fa_share_beyond(fa_pieces_share(law, c, FA_NO_EDGES), t)));
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
        compare(END, cabsl(a + ends.end[e].atom) * (1.0L - 1e-12L),
                fa_end_most(ends.end + e, terms, (double)cabsl(1.0L / w)));
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

/* the moments of a long line, over M(c) and without the turn of its lower end, and their bound far out */
static void check_far(fa_cap_job *job, const fa_pieces *law)
{
    double wr[FA_LONG_RUN], wi[FA_LONG_RUN], re[FA_LONG_RUN], im[FA_LONG_RUN],
        range = fa_pieces_end(law, 1) - fa_pieces_end(law, 0), turns, t;
    fa_long_line line;
    fa_long_kind kind;
    int i, k, round;
    memset(&line, 0, sizeof(line));
    line.c = 1.0 + uniform(0.0, 6.0) / range;
    line.h = fa_from_bits(fa_bits(between(0.05, 2.0) / range) & ~((1ULL << 22) - 1));
    if (!fa_cap_job_clear(job, 1))
        exit(1);
    fa_cap_job_add_pieces(job, law, 1.0);
    if (!fa_long_set(&line, job->blocks, &kind, 900.0 / range))
        return;
    turns = 4.0 * (line.c * (fabs(kind.place) + kind.gap) + fabs(line.log_m)) + 128.0 * line.h * kind.gap;
    for (round = 0; round < 3; round++) {
        k = round ? FA_LONG_RUN * (int)uniform(0.0, 800.0 / range / line.h / FA_LONG_RUN) : 0;
        t = k * line.h;
        for (i = 0; i < FA_LONG_RUN; i++) {
            lc w = 1.0L / (line.c + (ld)kind.slope + ((ld)t + i * (ld)line.h) * I);
            wr[i] = (double)creall(w), wi[i] = (double)cimagl(w);
        }
        (void)fa_long_moments(&kind, t, line.h, wr, wi, re, im);
        for (i = 0; i < FA_LONG_RUN; i += 9) {
            ld here = (ld)t + i * (ld)line.h;
            lc true_one = truth(law, line.c + here * I, 0.0L, 0, 64) * expl(-(ld)line.log_m) *
                          cexpl(-here * (ld)kind.place * I);
            compare(FAR, cabsl(true_one - (re[i] + (lc)I * im[i])) - 1e-17L, FA_EPS * (kind.fixed + kind.by_t * here));
            if (k + i == 0) /* nothing has turned */
                compare(FIRST, cabsl(true_one - (re[0] + (lc)I * im[0])) - 1e-17L, FA_EPS * (kind.fixed - turns));
            if (i)
                compare(FAR_SHARE, cabsl(true_one), expl((ld)fa_long_share(&kind, t + line.h)));
        }
    }
}

/* of several losses, what |F| is beyond the points of a line, which are few, and up to thirty times as far */
static void check_beyond(fa_cap_job *job)
{
    enum { MOST = 6 };
    fa_atom atoms[MOST][2];
    fa_panel panel[MOST];
    fa_pieces law[MOST];
    fa_long_line line;
    fa_flat_place at;
    ld sum = 0.0L, own[MOST];
    int b, k, n = 1 + (int)uniform(0.0, MOST);
    memset(&line, 0, sizeof(line));
    if (!fa_cap_job_clear(job, n))
        exit(1);
    for (b = 0; b < n; b++) {
        do
            draw(law + b, atoms[b], panel + b, between(0.05, 4.0));
        while (panel[b].rate < 1.0);
        law[b].is_flipped = 0;
        fa_cap_job_add_pieces(job, law + b, 1.0 + (int)uniform(0.0, 6.0));
    }
    job->mu2 = uniform(0.0, 1.0) < 0.3 ? between(1e-6, 1e-2) : 0.0;
    if (!fa_flat_find(job, job->top * uniform(0.1, 0.7), 0.0, &at) ||
        !fa_long_draw(job, &line, &at, at.eps, at.log_size, between(1e-3, 1e2)) || line.n > 512)
        return;
    for (b = 0; b < n; b++)
        own[b] = creall(truth(law + b, line.c, 0.0L, 0, 4));
    for (k = line.n; k < 30 * line.n; k++) {
        ld t = k * (ld)line.h, size = expl(-0.5L * ((ld)line.mu2 + line.extra) * t * t);
        lc u = line.c + t * I;
        for (b = 0; b < n; b++) { /* the density's moment in closed form */
            const fa_panel *p = panel + b;
            lc one = expl((ld)p->log_density) * (cexpl((u - 0.5L) * (ld)p->high + 0.5L * (ld)p->low) -
                                                 cexpl(u * (ld)p->low)) / (u - 0.5L);
            int e;
            for (e = 0; e < law[b].n_atoms; e++)
                one += cexpl((ld)atoms[b][e].log_weight + u * (ld)atoms[b][e].loss);
            size *= powl(cabsl(one) / own[b], job->blocks[b].steps);
        }
        sum += size / cabsl(u * (u - 1.0L));
    }
    compare(FAR_TAIL, sum * line.h / PI, (ld)line.tail + 1e-300L);
    fa_long_line_free(&line);
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
        check_far(&job, &law);
        check_beyond(&job);
        draw(&law, atoms, &panel, between(400.0, 1200.0)); /* weights of large losses are below all floats */
        check_tail(&job, &law, uniform(0.3, 1.8));
    }
    fa_cap_job_free(&job);
    report(names, KINDS);
    return 0;
}
