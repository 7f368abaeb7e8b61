/* edges.c -- windows on losses that are data (loss/edges.h, loss/path.h, line/pieces_cap.h) against integrals in 80
 * bits: program SEED LOSSES; as pieces.c.
 */
#include "sums.h"
#include "tally.h"

#include "laws.h"

#define ROUNDED 1e-13L /* of nodes in doubles */
#define CUTS    256

enum { RULE, BEYOND, GAIN, BACK, TAIL, LARGE, FALLEN, BELOW, ENDS, KINDS };
static const char *names[] = {
    "rule",          "Q beyond the cap", "P beyond the cap, less that", "J(a)", "tail", "large losses",
    "above the dip", "below the dip",    "a window off the line"};

/* nodes of a starved mesh, with a cap and a floor */
static void check_rule(const fa_pieces *law, fa_edges edges, double c, double t)
{
    static double room[4][16384];
    fa_node_rows rows = {room[0], room[1], room[2], room[3]};
    fa_mesh mesh = {0, 0, 0, NULL};
    double size = fa_pieces_size(law, c, &edges);
    fa_asked ask = {c, t, size / c, 0.0, edges};
    ld sum_off;
    lc sum = 0.0L;
    int n, j;
    if (!fa_pieces_mesh(law, &(const fa_demand){&ask, &ask, between(1e-9, 10.0)}, 1, 12000.0, &mesh))
        exit(4);
    n = fa_pieces_fill(law, &mesh, &rows);
    for (j = 0; j < n; j++)
        sum += expl((ld)rows.log_weight[j]) * window_of(&edges.cap, rows.loss[j]) *
               window_of(&edges.floor, rows.loss[j]) * cexpl((c + t * I) * ((ld)rows.loss[j] - ask.mean));
    sum_off = cabsl(truth_in(law, c + t * I, ask.mean, 0, CUTS, &edges) - sum);
    compare(RULE, sum_off - ROUNDED * (1.0L + t * fabs(edges.cap.at)), fa_mesh_error(law, &mesh, &ask, &ask));
    fa_mesh_free(&mesh);
}

/* what a cap leaves to the closed part and to `put` */
static void check_outside(fa_cap_block *block, const fa_pieces *law)
{
    const fa_edges beyond = {{block->window.at, block->window.width, -1.0}, {0.0, 0.0, 0.0}};
    static const double back[] = {-0.3, -3.0, -30.0};
    ld q = creall(truth_in(law, 0.0L, 0.0L, 0, CUTS, &beyond)), p = creall(truth_in(law, 1.0L, 0.0L, 0, CUTS, &beyond));
    double off = FA_EPS * block->w.off, sums[3];
    int i;
    compare(BEYOND, fabsl(block->w.q_mass / q - 1.0L), off);
    compare(GAIN, fabsl(block->w.gain / (p - q) - 1.0L) - 1e-17L * p / (p - q), off);
    for (i = 0; i < 3; i++) {
        fa_pieces_outside_sums(block, back[i], sums);
        compare(BACK, creall(truth_in(law, back[i], 0.0L, 0, CUTS, &beyond)), sums[0]);
    }
}

/* bounds for all Im u from t on, of what a line has and of what is above its floor; what hardly ever happens */
static void check_line(fa_cap_job *job, const fa_pieces *law, double c, double t)
{
    fa_cap_block *block = job->blocks;
    fa_edges keep, large;
    double a = -between(0.1, 20.0) / fabs(block->dip.at), here = t;
    int i;
    block->split = 1;
    block->k = block->jumps = 1.0;
    if (!fa_pieces_lay_line(block, c, 1.2 * c, 20.0 / block->w.floor, -a, t, 20.0))
        return;
    keep = fa_pieces_edges(block, 0.0);
    large = fa_pieces_edges(block, -1.0);
    for (i = 0; i < 4; i++, here = t * between(1.0, 5.0)) {
        lc u = c + here * I;
        compare(TAIL, cabsl(truth_in(law, u, 0.0L, 0, 2 * CUTS, &keep)) * (1.0L - 1e-12L),
                expl((ld)fa_pieces_majorant(block, c, t)));
        compare(LARGE, cabsl(truth_in(law, u, 0.0L, 0, 2 * CUTS, &large)),
                expl((ld)fa_pieces_majorant_large(block, c, t)));
    }
    if (block->dip.width > 0.0) {
        const fa_edges above = {block->window, block->dip},
                       below = {{0.0, 0.0, 1.0}, {block->dip.at, block->dip.width, 1.0}};
        compare(FALLEN, creall(truth_in(law, a, 0.0L, 0, CUTS, &above)) * (1.0L - 1e-12L),
                fa_pieces_fallen(block, &block->nodes, a, fa_pieces_dip_error(block, a, -1.0)).one *
                    expl((ld)a * block->nodes.mean));
        compare(BELOW, creall(truth_in(law, 0.0L, 0.0L, 0, CUTS, &below)), fa_pieces_below(block));
    }
    fa_pieces_no_cap(block);
    block->split = 0;
}

/* |Phi(a + ib)| by its Taylor series about a */
static void check_edge(void)
{
    fa_edge e = {uniform(-1.0, 1.0), between(0.05, 2.0), uniform(0.0, 1.0) < 0.5 ? -1.0 : 1.0};
    double away = uniform(-5.0, 5.0) * e.width, turn = uniform(0.0, 4.0) * e.width, low = e.at + away;
    ld a = -e.side * away / e.width, b = turn / e.width, step = b / 2000.0L;
    lc sum = 0.5L * erfcl(-a * 0.70710678118654752440L);
    int i;
    for (i = 0; i < 2000; i++) { /* along i s, by the middle of each step */
        lc z = a + (i + 0.5L) * step * I;
        sum += I * step * 0.39894228040143267794L * cexpl(-0.5L * z * z);
    }
    compare(ENDS, cabsl(sum) * (1.0L - 1e-5L), expl((ld)fa_edge_most(&e, low, low + between(1e-3, 1.0), turn)));
    compare(ENDS, cabsl(sum) * (1.0L - 1e-5L), expl((ld)fa_edge_most(&e, low - between(1e-3, 1.0), low, turn)));
}

int main(int argc, char **argv)
{
    int i, k, losses = argc > 2 ? atoi(argv[2]) : 100;
    fa_cap_effort effort = fa_cap_usual_effort();
    fa_cap_job job;
    memset(&job, 0, sizeof(job));
    state = argc > 1 ? (uint64_t)atoi(argv[1]) : 1;
    for (i = 0; i < losses; i++) {
        fa_atom atom;
        fa_panel panels[2];
        fa_pieces law;
        fa_cap_block *block;
        double from, c, shift;
        draw_curved(&law, &atom, panels);
        law.is_flipped = 0;
        if (i % 3 == 2) { /* two samples of which one is drawn in sight of everyone: no loss falls far */
            law.n_atoms = 0;
            for (k = 0; k < 2; k++) {
                double mu = between(0.2, 3.0);
                panels[k] = (fa_panel){.low = -mu * (20.0 + 0.5 * mu), .high = mu * (20.0 + 0.5 * mu), .fine = 8.0};
                panels[k].rate = between(1e-3, 0.9), panels[k].curve = 1.0 / (mu * mu),
                panels[k].centre = -0.5 * mu * mu;
                panels[k].log_density = -log(mu * sqrt(2.0 * FA_PI)) + log(k ? 0.99 : 0.01);
            }
        }
        shift = (double)logl(creall(truth(&law, 0.0L, 0.0L, 0, CUTS)));
        atom.log_weight -= shift; /* K takes the mass for 1 */
        panels[0].log_density -= shift, panels[1].log_density -= shift;
        check_edge();
        if (!fa_cap_job_clear(&job, 1))
            exit(1);
        fa_cap_job_add_pieces(&job, &law, 2.0 + uniform(0.0, 50.0));
        block = job.blocks;
        from = between(0.02, 0.5) * panels[1].high;
        if (fa_pieces_falls(block))
            fa_pieces_find_dip(block);
        fa_pieces_place_cap(&job, block, &effort, from, 0.0);
        if (!(block->window.width > 0.0))
            continue;
        check_outside(block, &law);
        block->w.floor = between(0.05, 0.6) * from;
        block->w.floor_width = block->w.floor / FA_PIECES_ROOM;
        c = between(0.3, 30.0) / block->window.at;
        check_rule(&law, (fa_edges){block->window, {block->w.floor, block->w.floor_width, i % 2 ? 1.0 : -1.0}}, c,
                   between(0.1, 60.0) / block->window.at);
        check_rule(&law, (fa_edges){{block->window.at, block->window.width, -1.0}, {0.0, 0.0, 0.0}}, between(0.1, 2.0),
                   0.0);
        check_line(&job, &law, c, between(1.0, 300.0) / block->window.at);
    }
    fa_cap_job_free(&job);
    report(names, KINDS);
    return 0;
}
