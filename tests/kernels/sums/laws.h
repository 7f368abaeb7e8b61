/* laws.h -- losses that are data, drawn, and their moments in 80 bits. */
#include "renyi/pieces_moments.h"

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

/* a window of a line */
static ld window_of(const fa_edge *e, ld loss)
{
    return e->width > 0.0 ? 0.5L * erfcl((ld)e->side * (loss - e->at) / e->width * 0.70710678118654752440L) : 1.0L;
}

/* E[exp(u l)] or that of exp(u l) - 1 - u l, l = L - mean, times windows, atoms and panels, by 64 points in each of
 * `cuts` parts */
static lc truth_in(const fa_pieces *law, lc u, ld mean, int kind, int cuts, const fa_edges *edges)
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
                density *= window_of(&edges->cap, turned ? -l : l) * window_of(&edges->floor, turned ? -l : l);
                sum += (ld)fa_gauss_weight[at] * half * density * (kind ? second(s) : cexpl(s));
            }
    }
    for (i = 0; i < law->n_atoms; i++) {
        ld l = law->atoms[i].loss, w = expl((ld)law->atoms[i].log_weight + (law->is_flipped ? l : 0.0L));
        lc s = u * (side * l - mean);
        w *= window_of(&edges->cap, side * l) * window_of(&edges->floor, side * l);
        sum += w * (kind ? second(s) : cexpl(s));
    }
    return sum;
}

static lc truth(const fa_pieces *law, lc u, ld mean, int kind, int cuts)
{
    return truth_in(law, u, mean, kind, cuts, FA_NO_EDGES);
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
