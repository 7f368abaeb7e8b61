/* data.h -- steps whose losses are data: a batch of fixed size in which a record is replaced, and an epoch of random
 * allocation, as fastacct/losses/panels.py and pieces.py lay them out.
 *
 * Of all steps P and Q have at most `lost` elsewhere: delta is at most that more, and epsilon off by that.
 */
#ifndef EXPLORER_DATA_H
#define EXPLORER_DATA_H

#define EXPLORER_REACH     38.0   /* deviations of a Gaussian, beyond which its panels lose ... */
#define EXPLORER_TAIL      1e-299 /* ... less than this */
#define EXPLORER_ROOM      (1 << 15)
#define EXPLORER_FEW_STEPS 20000 /* bound more of them, where those have no lattice */

typedef struct {
    double noise, steps, smooth[4], lost;
    int32_t n_atoms;
    double atoms[4 * EXPLORER_ROOM];
} explorer_lattice;

/* of an epoch; the last one is kept.  n_atoms 0: there is none */
static const explorer_lattice *explorer_lattice_of(double noise, double steps)
{
    static explorer_lattice kept;
    double known[4] = {0.0, 0.0, 0.0, 0.0};
    if (kept.noise == noise && kept.steps == steps)
        return &kept;
    kept.n_atoms = steps * (450.0 + 30.0 * noise) < 1e9 /* what joins round */
                       ? fa_allocation(noise, (int64_t)steps, EXPLORER_ROOM, kept.atoms, known)
                       : 0;
    kept.noise = noise, kept.steps = steps, kept.lost = fa_max(known[2], known[3]);
    kept.smooth[0] = noise, kept.smooth[1] = steps, kept.smooth[2] = known[0], kept.smooth[3] = known[1];
    return &kept;
}

/* losses above 0 of a record of a batch, their mirror images, and an atom at 0 */
static void explorer_swap(double mu, double rate, fa_panel *panels, double *atom)
{
    double centre = -0.5 * mu * mu, log_weight = log1p(-rate) + log(erf(sqrt(0.125) * mu));
    panels[1] = (fa_panel){0.0, mu * (EXPLORER_REACH + 0.5 * mu), -log(mu * sqrt(2.0 * M_PI)), 0.0, rate, 0.0,
                           4.0 * fabs(centre), 8.0, 1.0 / (mu * mu), centre, 0.0, 0.0};
    panels[0] = panels[1];
    panels[0].turned = 1.0;
    atom[0] = 0.0, atom[1] = log_weight, atom[2] = 0.0, atom[3] = 32.0 + 4.0 * fabs(log_weight);
}

/* bounds of a job whose masses miss `lost`: epsilon needs a read at either side of its target */
static int64_t explorer_read_data(const fa_job *job, double lost, const explorer_ask *ask,
                                  const fa_question *question, const fa_answers *out)
{
    int is_epsilon = ask->quantity == FA_GIVE_EPSILON;
    size_t i, n = ask->n, m = is_epsilon ? 2 * n : n;
    double *room = malloc((4 * m + 1) * sizeof(double)), *at = room, *low = room + m, *up = room + 2 * m;
    uint8_t *status = malloc(m + 1);
    fa_cells in = {.n = (int64_t)m, .target = at};
    fa_answers both = {.lower = low, .upper = up, .slope = room + 3 * m, .status = status};
    int64_t done = FA_NO_MEMORY;
    for (i = 0; room && i < m; i++) {
        double target = ask->target[is_epsilon ? i / 2 : i];
        at[i] = !is_epsilon ? target
                : i & 1     ? fa_min(1.0, target * (1.0 + 8.0 * FA_EPS))
                            : fa_max(0.0, (target - lost) * (1.0 - 8.0 * FA_EPS));
    }
    if (room && status)
        done = fa_exact_job(job, &in, question, INFINITY, &both);
    for (i = 0; done == (int64_t)m && i < n; i++) {
        double more = log(2.0 * lost), value = up[i];
        out->lower[i] = is_epsilon ? fa_max(0.0, low[2 * i + 1] - lost)
                        : ask->quantity == FA_GIVE_THRESHOLD ? low[i]
                                                             : -INFINITY;
        out->upper[i] = is_epsilon ? (up[2 * i] + lost) * (1.0 + 4.0 * FA_EPS)
                        : ask->quantity == FA_GIVE_LOG_DELTA
                            ? fa_min(0.0, fa_max(value, more) + log1p(exp(-fabs(value - more))) + 1e-13)
                            : value;
        out->lower[i] = fa_min(out->lower[i], out->upper[i]);
        out->status[i] = (uint8_t)(is_epsilon ? fa_status_of(out->lower[i], out->upper[i], FA_GIVE_EPSILON) : FA_LOOSE);
    }
    free(room);
    free(status);
    return done == (int64_t)m ? (int64_t)n : FA_NO_MEMORY;
}

/* a batch of fixed size, or an epoch of random allocation with `rate` steps, which fewer steps bound */
static int64_t explorer_data(const explorer_ask *ask, const fa_question *question, const fa_answers *out)
{
    static const double nothing[4];
    static const int32_t none = 0, one = 1, two = 2;
    int is_batch = ask->law == EXPLORER_FIXED_SIZE;
    double atom[4], lost = EXPLORER_TAIL;
    fa_panel panels[2];
    const explorer_lattice *lattice = is_batch ? NULL : explorer_lattice_of(ask->noise, ask->rate);
    fa_job job = {.n_data = 1, .mirrored = is_batch, .times = &ask->steps, .n_tables = &none, .n_slices = &none,
                  .missed = nothing, .smooth = nothing, .n_atoms = &one, .n_panels = &two, .atom = atom,
                  .panel = (const double *)panels};
    int64_t done;
    size_t i;
    if (is_batch)
        explorer_swap(2.0 / ask->noise, ask->rate, panels, atom);
    else {
        if (lattice->n_atoms <= 0 && ask->rate > EXPLORER_FEW_STEPS)
            lattice = explorer_lattice_of(ask->noise, EXPLORER_FEW_STEPS);
        if (lattice->n_atoms <= 0)
            return explorer_sampled(ask, question, out);
        job.n_atoms = &lattice->n_atoms, job.n_panels = &none, job.atom = lattice->atoms, job.smooth = lattice->smooth;
        lost = lattice->lost;
    }
    done = explorer_read_data(&job, ask->steps * lost * (1.0 + 1e-9), ask, question, out);
    for (i = 0; !is_batch && lattice->steps != ask->rate && i < ask->n && ask->quantity == FA_GIVE_EPSILON; i++) {
        out->lower[i] = 0.0;
        out->status[i] = fa_max(out->status[i], out->upper[i] > 0.0 ? FASTACCT_LOOSE : FASTACCT_TIGHT);
    }
    return done;
}

#endif
