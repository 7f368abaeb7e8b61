/* attack.h -- the largest true-positive rate of any attack: of a run, and of all that an (epsilon, delta) allows.
 *
 * Every e bounds the rate at a false-positive rate x from above,
 *
 *   tpr(x) <= V(e) = delta(e) + e^e x,     delta(-t) = 1 - e^-t + e^-t delta_other(t),     t > 0,
 *
 * with delta of a direction and of the other one, so that the search for the best e needs no proof.
 */
#ifndef EXPLORER_ATTACK_H
#define EXPLORER_ATTACK_H

/* V(e) from above */
static double explorer_value(double x, double e, double log_delta)
{
    double delta = exp(log_delta) * (1.0 + EXPLORER_PAD), lift, pad;
    if (e < 0.0)
        return (-expm1(e) + exp(e) * (delta + x)) * (1.0 + EXPLORER_PAD);
    pad = EXPLORER_PAD * (1.0 + e - log(x));
    lift = exp(fa_min(e + log(x), 700.0)) * (1.0 + pad);
    return (delta + lift) * (1.0 + EXPLORER_PAD);
}

/* lowers tpr[i] to V(sign * e[i]), with the log deltas of a direction at e */
static int explorer_lower(const explorer_ask *ask, double sign, const double *fpr, double *tpr)
{
    size_t i;
    int found = explorer_answer(ask);
    for (i = 0; i < ask->n; i++)
        tpr[i] = fa_min(tpr[i], explorer_value(fpr[i], sign * ask->target[i], ask->upper[i]));
    return found;
}

/* asks one direction; 3: both, of losses that are their own mirror image */
static void explorer_turn(explorer_ask *ask, int way)
{
    ask->way = (fa_ways)way;
    if (ask->law < EXPLORER_REPLACE_ONE) /* there fastacct_relation names it, with the same numbers */
        ask->law = way;
}

/* one direction: tries the threshold of the best test, 0, and where its losses or the other one's end */
static int explorer_one_way(const explorer_ask *run, int way, int other, const double *fpr, double *room, double *tpr)
{
    size_t i, n = run->n;
    double *e = room, *right = room + n, *left = room + 2 * n;
    explorer_ask search = *run, read = *run;
    double end = run->law >= EXPLORER_REPLACE_ONE || !(run->rate < 1.0)
                     ? 0.0
                     : -run->steps * log1p(-run->rate) * (1.0 + EXPLORER_PAD);
    int most;
    explorer_turn(&search, way);
    search.quantity = FA_GIVE_THRESHOLD;
    search.target = fpr;
    search.lower = e;
    most = explorer_answer(&search);
    if (most >= FASTACCT_BAD_INPUT)
        return most;
    read.quantity = FA_GIVE_LOG_DELTA;
    for (i = 0; i < n; i++) {
        right[i] = fa_max(e[i], 0.0);
        left[i] = fa_max(-e[i], 0.0);
    }
    explorer_turn(&read, way);
    read.target = right;
    most = explorer_lower(&read, 1.0, fpr, tpr);
    explorer_turn(&read, other);
    read.target = left;
    most = fa_max(most, explorer_lower(&read, -1.0, fpr, tpr));
    if (end > 0.0) {
        for (i = 0; i < n; i++)
            e[i] = end;
        explorer_turn(&read, FASTACCT_ADD);
        read.target = e;
        most = fa_max(most, explorer_lower(&read, way == FASTACCT_ADD ? 1.0 : -1.0, fpr, tpr));
    }
    return most;
}

/* The largest true-positive rate of any attack on a run at n false-positive rates in (0, 1), from above, in both
 * directions of a relation. */
EXPORT(explorer_tpr)
int explorer_tpr(double noise, double rate, double steps, int law, size_t n, const double *fpr, double *tpr)
{
    int is_one = law == EXPLORER_REPLACE_ONE, most = FASTACCT_NO_MEMORY;
    double *room = malloc(6 * n * sizeof(double));
    uint8_t *status = malloc(n + 1);
    explorer_ask run = {.noise = noise, .rate = rate, .steps = steps, .law = law, .n = n, .status = status};
    size_t i;
    for (i = 0; i < n; i++)
        tpr[i] = 1.0;
    if (room && status) {
        double *one = room + 3 * n;
        run.lower = room + 4 * n;
        run.upper = room + 5 * n;
        most = explorer_one_way(&run, is_one ? FA_WAYS_BOTH : FASTACCT_REMOVE, is_one ? FA_WAYS_BOTH : FASTACCT_ADD,
                                fpr, room, tpr);
        if (!is_one && most < FASTACCT_BAD_INPUT) {
            for (i = 0; i < n; i++)
                one[i] = 1.0;
            most = explorer_one_way(&run, FASTACCT_ADD, FASTACCT_REMOVE, fpr, room, one);
            for (i = 0; i < n; i++)
                tpr[i] = fa_max(tpr[i], one[i]);
        }
    }
    if (most >= FASTACCT_BAD_INPUT)
        for (i = 0; i < n; i++)
            tpr[i] = 1.0;
    free(room);
    free(status);
    return most;
}

/* what epsilon and delta alone allow, from above */
EXPORT(explorer_pair_tpr)
void explorer_pair_tpr(double epsilon, double delta, size_t n, const double *fpr, double *tpr)
{
    double log_delta = delta > 0.0 ? log(delta) * (1.0 - EXPLORER_PAD) : -INFINITY;
    size_t i;
    for (i = 0; i < n; i++) {
        tpr[i] = 1.0;
        if (epsilon < INFINITY && fpr[i] > 0.0)
            tpr[i] = fa_min(1.0, fa_min(explorer_value(fpr[i], epsilon, log_delta),
                                        explorer_value(fpr[i], -epsilon, log_delta)));
    }
}

#endif
