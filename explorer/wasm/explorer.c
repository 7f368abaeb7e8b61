/* explorer.c -- what the page asks of the kernels, compiled to WebAssembly by build.mjs.
 *
 * Functions return a fastacct_status.  From FASTACCT_BAD_INPUT on the answers are the safe side.  Upper bounds are
 * never below the truth, lower ones never above it, as in fastacct.h; the error of libm here is measured by libm.c.
 */
#include "fastacct.c"

#define EXPORT(name) __attribute__((export_name(#name)))

/* Beside fastacct_relation: one record is replaced, whose clipped gradient may turn round. */
#define EXPLORER_REPLACE_ONE 3
#define EXPLORER_PAD         0x1p-49 /* covers the few operations of a formula, with 4 ulp for exp, expm1 and log */

EXPORT(explorer_alloc) void *explorer_alloc(size_t size) { return malloc(size); }

/* One run, where it is read, and where the answers go. */
typedef struct {
    double noise, rate, steps;
    int relation;
    fa_quantity quantity;
    size_t n;
    const double *target;
    double *lower, *upper;
    uint8_t *status;
} explorer_ask;

static void explorer_refuse(const explorer_ask *ask, uint8_t status)
{
    double safe = ask->quantity == FA_GIVE_EPSILON ? INFINITY : ask->quantity == FA_GIVE_DELTA ? 1.0 : 0.0;
    size_t i;
    for (i = 0; i < ask->n; i++) {
        ask->lower[i] = ask->quantity == FA_GIVE_LOG_DELTA ? -INFINITY : 0.0;
        ask->upper[i] = safe;
        ask->status[i] = status;
    }
}

static int explorer_is_target(fa_quantity quantity, double target)
{
    if (quantity == FA_GIVE_THRESHOLD)
        return target > 0.0 && target < 1.0;
    return target >= 0.0 && (quantity != FA_GIVE_EPSILON || target <= 1.0);
}

static uint8_t explorer_fault(const explorer_ask *ask)
{
    size_t i;
    if (!fa_rounds_to_nearest() || !fa_keeps_subnormals())
        return FASTACCT_BAD_ARITHMETIC;
    if (!fa_is_run(ask->noise, ask->rate, ask->steps) || ask->relation < 0 || ask->relation > EXPLORER_REPLACE_ONE)
        return FASTACCT_BAD_INPUT;
    for (i = 0; i < ask->n; i++)
        if (!explorer_is_target(ask->quantity, ask->target[i]))
            return FASTACCT_BAD_INPUT;
    return FASTACCT_TIGHT;
}

/* a record that is replaced: drawn or not, and when drawn moves the sum one way or the other */
static int64_t explorer_replaced(const explorer_ask *ask, const fa_question *question, const fa_answers *out)
{
    int32_t two = 2;
    double weight[4] = {1.0 - ask->rate, ask->rate, 1.0 - ask->rate, ask->rate}, mean[4] = {0.0, 1.0, 0.0, -1.0};
    fa_job job = {.n_blocks = 1,
                  .count = &ask->steps,
                  .sigma = &ask->noise,
                  .n_p = &two,
                  .n_q = &two,
                  .weight = weight,
                  .mean = mean,
                  .mirrored = 1};
    fa_cells at = {.n = (int64_t)ask->n, .target = ask->target};
    return fa_exact_job(&job, &at, question, INFINITY, out);
}

static int64_t explorer_sampled(const explorer_ask *ask, const fa_question *question, const fa_answers *out)
{
    double noise = ask->relation == EXPLORER_REPLACE_ONE ? 0.5 * ask->noise : ask->noise;
    double *column = malloc(3 * ask->n * sizeof(double));
    fa_cells in = {.n = (int64_t)ask->n,
                   .sigma = column,
                   .q = column + ask->n,
                   .steps = column + 2 * ask->n,
                   .target = ask->target};
    int64_t done;
    size_t i;
    if (!column)
        return FA_NO_MEMORY;
    for (i = 0; i < ask->n; i++) {
        column[i] = noise;
        column[ask->n + i] = ask->rate;
        column[2 * ask->n + i] = ask->steps;
    }
    done = fa_exact_block(&in, question, INFINITY, out);
    free(column);
    return done;
}

/* Where no line says anything of a sample with a record replaced: epsilon without sampling is an upper bound. */
static void explorer_below_unsampled(const explorer_ask *ask)
{
    double lower, upper, slope, noise = 0.5 * ask->noise, rate = 1.0;
    uint8_t status;
    size_t i;
    fa_question question = {.quantity = FA_GIVE_EPSILON, .ways = FA_WAYS_BOTH, .conversion = FA_RULE_CKS};
    fa_answers out = {.lower = &lower, .upper = &upper, .slope = &slope, .status = &status};
    for (i = 0; i < ask->n; i++) {
        fa_cells one = {.n = 1, .sigma = &noise, .q = &rate, .steps = &ask->steps, .target = ask->target + i};
        if (ask->status[i] != FASTACCT_NOT_MET || fa_exact_block(&one, &question, INFINITY, &out) != 1)
            continue;
        if (upper < ask->upper[i]) {
            ask->upper[i] = upper;
            ask->status[i] = FASTACCT_LOOSE;
        }
    }
}

/* all targets of a run: the largest status */
static int explorer_answer(const explorer_ask *ask)
{
    int is_moved = ask->relation == EXPLORER_REPLACE_ONE && ask->rate > 0.0 && ask->rate < 1.0 && ask->steps > 0.0 &&
                   ask->noise > 0.0 && ask->noise < INFINITY;
    fa_question question = {.quantity = ask->quantity,
                            .ways = ask->relation == EXPLORER_REPLACE_ONE ? FA_WAYS_BOTH
                                                                          : (fa_ways)fa_ways_of(ask->relation),
                            .conversion = FA_RULE_CKS};
    uint8_t most = explorer_fault(ask);
    double *slope;
    fa_answers out;
    int64_t done = FA_NO_MEMORY;
    size_t i;
    if (most != FASTACCT_TIGHT) {
        explorer_refuse(ask, most);
        return most;
    }
    slope = malloc((ask->n + 1) * sizeof(double));
    out = (fa_answers){.lower = ask->lower, .upper = ask->upper, .slope = slope, .status = ask->status};
    if (slope)
        done = is_moved ? explorer_replaced(ask, &question, &out) : explorer_sampled(ask, &question, &out);
    free(slope);
    if (done != (int64_t)ask->n) {
        explorer_refuse(ask, FASTACCT_NO_MEMORY);
        return FASTACCT_NO_MEMORY;
    }
    if (is_moved && ask->quantity == FA_GIVE_EPSILON)
        explorer_below_unsampled(ask);
    for (i = 0; i < ask->n; i++)
        most = ask->status[i] > most ? ask->status[i] : most;
    return most;
}

/* bounds of epsilon (0), delta (1) or log delta (2) of one run at n targets */
EXPORT(explorer_read)
int explorer_read(double noise, double rate, double steps, int relation, int quantity, size_t n, const double *target,
                  double *lower, double *upper, uint8_t *status)
{
    explorer_ask ask = {noise, rate, steps, relation, (fa_quantity)quantity, n, target, lower, upper, status};
    return explorer_answer(&ask);
}

/* bounds of epsilon, cell by cell */
EXPORT(explorer_epsilon)
int explorer_epsilon(size_t n, const double *noise, const double *rate, const double *steps, const double *delta,
                     int relation, double *lower, double *upper, uint8_t *status)
{
    int most = FASTACCT_TIGHT, found;
    size_t i;
    if (relation != EXPLORER_REPLACE_ONE)
        return fastacct_epsilon(n, noise, rate, steps, delta, (fastacct_relation)relation, lower, upper, status);
    for (i = 0; i < n; i++) {
        found = explorer_read(noise[i], rate[i], steps[i], relation, FA_GIVE_EPSILON, 1, delta + i, lower + i,
                              upper + i, status + i);
        most = found > most ? found : most;
    }
    return most;
}

#include "attack.h"
#include "noise.h"
